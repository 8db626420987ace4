// Shared variables (globals in address space 3) become places in the memory that the emulator keeps for a block, laid
// out for each kernel apart with gaps in between; variables of size zero are the dynamic part.
#include <stdlib.h>

#include "codegen/codegen.h"
#include "codegen/cuda/emulate/emulate_internal.h"
#include "codegen/kernel/emitted.h"
#include "support/alloc.h"
#include "support/integers.h"

enum { GAP_BYTES = 64 };

typedef struct Materialised {
  LLVMValueRef constant, value;
} Materialised;
typedef struct Rewrite {
  Emulation *e;
  EmulatedKernel *kernel;
  LLVMValueRef base, dynamic;   // at the kernel's entry; NULL: not needed yet
  Materialised *done;           // Owned
  int n_done;
} Rewrite;

static bool is_shared_variable(LLVMValueRef v) {
  return LLVMIsAGlobalVariable(v) && LLVMGetPointerAddressSpace(LLVMTypeOf(v)) == SPACE_SHARED;
}

static bool mentions_shared(LLVMValueRef v) {
  if (!LLVMIsAConstant(v)) return false;
  if (is_shared_variable(v)) return true;
  if (!LLVMIsAConstantExpr(v) && !LLVMIsAConstantVector(v) && !LLVMIsAConstantStruct(v) && !LLVMIsAConstantArray(v))
    return false;
  for (int i = 0; i < LLVMGetNumOperands(v); i++)
    if (mentions_shared(LLVMGetOperand(v, (unsigned)i))) return true;
  return false;
}

static SharedVariable *place_variable(Rewrite *r, LLVMValueRef global) {
  EmulatedKernel *k = r->kernel;
  for (int i = 0; i < k->n_variables; i++)
    if (k->variables[i].global == global) return &k->variables[i];
  int64_t bytes = (int64_t)LLVMABISizeOfType(r->e->layout, LLVMGlobalGetValueType(global));
  if (bytes == 0) return NULL;
  int64_t align = LLVMGetAlignment(global);
  if (!align) align = (int64_t)LLVMABIAlignmentOfType(r->e->layout, LLVMGlobalGetValueType(global));
  k->static_bytes = round_up(k->static_bytes, align) + bytes;
  int64_t offset = round_up(k->layout_bytes, align > GAP_BYTES ? align : GAP_BYTES);
  k->layout_bytes = round_up(offset + bytes, GAP_BYTES) + GAP_BYTES;
  SharedVariable *v = ARRAY_ADD(k->variables, k->n_variables);
  *v = (SharedVariable){.global = global,
                        .name = copy_string(LLVMGetValueName(global)),
                        .offset = offset,
                        .bytes = bytes};
  return v;
}

static LLVMValueRef call_base(Rewrite *r, const char *symbol) {
  LLVMTypeRef type;
  LLVMValueRef f = emulate_helper(r->e, symbol, r->e->pointer, 0, NULL, &type);
  return LLVMBuildCall2(r->e->builder, type, f, NULL, 0, "");
}

// The value of a constant that mentions shared variables, computed at the builder's place (the kernel's entry).
static LLVMValueRef materialise(Rewrite *r, LLVMValueRef c) {
  Emulation *e = r->e;
  for (int i = 0; i < r->n_done; i++)
    if (r->done[i].constant == c) return r->done[i].value;
  if (!mentions_shared(c)) return c;
  LLVMValueRef value = NULL;
  if (is_shared_variable(c)) {
    SharedVariable *v = place_variable(r, c);
    LLVMValueRef start = v ? r->base : r->dynamic, offset = LLVMConstInt(e->i64, v ? (uint64_t)v->offset : 0, false);
    value = LLVMBuildAddrSpaceCast(e->builder, LLVMBuildGEP2(e->builder, e->i8, start, &offset, 1, ""), LLVMTypeOf(c),
                                   LLVMGetValueName(c));
  } else if (LLVMIsAConstantExpr(c)) {
    LLVMValueRef operands[16];
    int n = LLVMGetNumOperands(c);
    for (int i = 0; i < n && i < 16; i++) operands[i] = materialise(r, LLVMGetOperand(c, (unsigned)i));
    LLVMOpcode opcode = LLVMGetConstOpcode(c);
    if (opcode == LLVMGetElementPtr && n <= 16)
      value = LLVMBuildGEP2(e->builder, LLVMGetGEPSourceElementType(c), operands[0], operands + 1, (unsigned)n - 1, "");
    else if (n == 1) value = LLVMBuildCast(e->builder, opcode, operands[0], LLVMTypeOf(c), "");
    else if (n == 2) value = LLVMBuildBinOp(e->builder, opcode, operands[0], operands[1], "");
  }
  if (!value) {
    emulate_fail(e, "kernel '%s' uses a shared variable in a constant that the emulator cannot rewrite",
                 r->kernel->name);
    return c;
  }
  *ARRAY_ADD(r->done, r->n_done) = (Materialised){c, value};
  return value;
}

void emulate_read_dynamic(Emulation *e) {
  e->dynamic_align = 1;
  for (LLVMValueRef v = LLVMGetFirstGlobal(e->module); v; v = LLVMGetNextGlobal(v))
    if (is_shared_variable(v) && LLVMABISizeOfType(e->layout, LLVMGlobalGetValueType(v)) == 0 &&
        LLVMGetAlignment(v) > e->dynamic_align)
      e->dynamic_align = LLVMGetAlignment(v);
}

void emulate_shared(Emulation *e, EmulatedKernel *k) {
  Rewrite r = {.e = e, .kernel = k};
  LLVMValueRef first = LLVMGetFirstInstruction(LLVMGetEntryBasicBlock(k->function));
  for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(k->function); b; b = LLVMGetNextBasicBlock(b))
    for (LLVMValueRef i = LLVMGetFirstInstruction(b); i; i = LLVMGetNextInstruction(i))
      for (int o = 0; o < LLVMGetNumOperands(i) && !e->error; o++) {
        LLVMValueRef operand = LLVMGetOperand(i, (unsigned)o);
        if (!mentions_shared(operand)) continue;
        LLVMPositionBuilderBefore(e->builder, first);
        if (!r.base) {
          r.base = call_base(&r, "nnc_emu_shared_base");
          r.dynamic = call_base(&r, "nnc_emu_dynamic_base");
        }
        LLVMSetOperand(i, (unsigned)o, materialise(&r, operand));
      }
  // ptxas rounds what every kernel has up to the alignment of the module's dynamic arrays.
  k->static_bytes = round_up(k->static_bytes, e->dynamic_align);
  // Dynamic shared memory begins at a multiple of that, and of no more.
  k->layout_bytes = round_up(k->layout_bytes, 2 * e->dynamic_align) + e->dynamic_align;
  free(r.done);
}
