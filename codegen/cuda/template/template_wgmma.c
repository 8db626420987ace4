// Products of a warpgroup, four warps, on Hopper (wgmma). Those that have accumulators as operands are functions
// without a body until PTX is written, which the emulator replaces by its own: optimisation sees calls, whose results
// no instruction can be moved before.
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/cuda/cuda.h"
#include "codegen/cuda/template/template.h"
#include "support/alloc.h"
#include "support/text.h"

#define PREFIX "nnc.asm.wgmma."
// ORDER EMULATE: runtime/cuda/emulator/wgmma.c has the same.
enum { FORM_F16 = 1, FORM_REGISTERS = 2, FORM_TRANSPOSED_A = 4, FORM_TRANSPOSED_B = 8, FORM_COLUMNS = 8 };
enum { MOST_SUMS = 128 };

// ---------------------------------------------------------------------------------------------------------------------
// Building

static_assert(WGMMA_PADDING == WGMMA_ALIGN - GPU_SHARED_ALIGN, "padding for another alignment");

Val build_wgmma_base(Build *b) {
  Val base = build_shared_base(b), address = LLVMBuildPtrToInt(b->builder, base, b->i32, "");
  return build_offset(b, base, build_and(b, LLVMBuildNeg(b->builder, address, ""), build_i32(b, WGMMA_ALIGN - 1)));
}

Val build_descriptor(Build *b, Val pointer, int leading, int stride) {
  Val address = LLVMBuildPtrToInt(b->builder, pointer, b->i64, "");
  Val start = LLVMBuildLShr(b->builder, build_and(b, address, build_i64_constant(b, 0x3fff0)), build_i64_constant(b, 4),
                            "");
  uint64_t rest = (uint64_t)1 << 62 | (uint64_t)(stride / 16) << 32 | (uint64_t)(leading / 16) << 16;
  return build_or(b, start, build_i64_constant(b, (int64_t)rest));
}

Val build_descriptor_on(Build *b, Val descriptor, Val bytes) {
  Val sixteenths = LLVMBuildLShr(b->builder, bytes, LLVMConstInt(LLVMTypeOf(bytes), 4, false), "");
  return build_add(b, descriptor,
                   LLVMTypeOf(bytes) == b->i64 ? sixteenths : LLVMBuildZExt(b->builder, sixteenths, b->i64, ""));
}

void build_async_fence(Build *b) { build_intrinsic(b, "llvm.nvvm.fence.proxy.async.shared_cta", NULL, 0, NULL); }
void build_wgmma_fence(Build *b) { build_intrinsic(b, "llvm.nvvm.wgmma.fence.sync.aligned", NULL, 0, NULL); }
void build_wgmma_commit(Build *b) { build_intrinsic(b, "llvm.nvvm.wgmma.commit_group.sync.aligned", NULL, 0, NULL); }

// A call of the function of this name, the first `sums` of whose operands are f32, and as many its results, in place of
// them.
static void call(Build *b, const char *name, int sums, int n, Val *operands) {
  LLVMTypeRef types[MOST_SUMS + 8], results[MOST_SUMS];
  for (int i = 0; i < n; i++) types[i] = LLVMTypeOf(operands[i]);
  for (int i = 0; i < sums; i++) results[i] = b->f32;
  LLVMTypeRef result = LLVMStructTypeInContext(b->llvm, results, (unsigned)sums, false),
              type = LLVMFunctionType(result, types, (unsigned)n, false);
  Val function = LLVMGetNamedFunction(b->module, name);
  if (!function) {
    static const char *const attributes[] = {"convergent", "nounwind"};
    function = LLVMAddFunction(b->module, name, type);
    for (int i = 0; i < 2; i++)
      LLVMAddAttributeAtIndex(
          function, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
          LLVMCreateEnumAttribute(b->llvm, LLVMGetEnumAttributeKindForName(attributes[i], strlen(attributes[i])), 0));
  }
  Val all = LLVMBuildCall2(b->builder, type, function, operands, (unsigned)n, "");
  for (int i = 0; i < sums; i++) operands[i] = LLVMBuildExtractValue(b->builder, all, (unsigned)i, "");
}

void build_wgmma(Build *b, const Wgmma *w, Val *c, const Val *a, Val b_descriptor, Val scale) {
  int sums = w->columns / 2, n = sums, form = w->columns << FORM_COLUMNS;
  require_promise(w->columns % 8 == 0 && w->columns >= 8 && sums <= MOST_SUMS && tile_element_bytes(w->type) == 2 &&
                      !(w->a_in_registers && w->a_transposed),
                  "a product of a warpgroup that there is not");
  Val operands[MOST_SUMS + 8];
  memcpy(operands, c, (size_t)sums * sizeof *c);
  for (int i = 0; i < (w->a_in_registers ? 4 : 1); i++) operands[n++] = a[i];
  operands[n++] = b_descriptor;
  operands[n++] = scale ? scale : build_i32(b, 1);
  form |= (w->type == TILE_F16 ? FORM_F16 : 0) | (w->a_in_registers ? FORM_REGISTERS : 0) |
          (w->a_transposed ? FORM_TRANSPOSED_A : 0) | (w->b_transposed ? FORM_TRANSPOSED_B : 0);
  operands[n++] = build_i32(b, form);
  char *name = text_format(PREFIX "mma.%d", form);
  call(b, name, sums, n, operands);
  free(name);
  memcpy(c, operands, (size_t)sums * sizeof *c);
}

void build_wgmma_wait(Build *b, int groups_pending, int n, Val *c) {
  Val operands[MOST_SUMS + 1];
  require_promise(n % MOST_SUMS != 1, "a wait for one accumulator");
  for (int i = 0, more; i == 0 || i < n; i += MOST_SUMS) {
    more = n - i < MOST_SUMS ? n - i : MOST_SUMS;
    for (int j = 0; j < more; j++) operands[j] = c[i + j];
    operands[more] = build_i32(b, groups_pending);
    char *name = text_format(PREFIX "wait.%d.%d", groups_pending, more);
    call(b, name, more, more + 1, operands);
    free(name);
    for (int j = 0; j < more; j++) c[i + j] = operands[j];
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// Assembly

static void append_list(Text *t, int first, int n) {
  text_add(t, "{");
  for (int i = 0; i < n; i++) text_add(t, "%s$%d", i ? ", " : "", first + i);
  text_add(t, "}");
}

// Results are $0 and so on, then come the operands, of which the first are tied to the results.
static void mma_text(Text *t, int form) {
  int columns = form >> FORM_COLUMNS, sums = columns / 2, at = 2 * sums, operands = form & FORM_REGISTERS ? 4 : 1;
  const char *type = form & FORM_F16 ? "f16" : "bf16";
  text_add(t, "{ .reg .pred p; setp.ne.b32 p, $%d, 0; wgmma.mma_async.sync.aligned.m64n%dk16.f32.%s.%s ",
           at + operands + 1, columns, type, type);
  append_list(t, 0, sums);
  text_add(t, ", ");
  if (form & FORM_REGISTERS) append_list(t, at, 4);
  else text_add(t, "$%d", at);
  text_add(t, ", $%d, p, 1, 1", at + operands);
  if (!(form & FORM_REGISTERS)) text_add(t, ", %d", form & FORM_TRANSPOSED_A ? 1 : 0);
  text_add(t, ", %d; }", form & FORM_TRANSPOSED_B ? 1 : 0);
}

static void constraints(Text *t, LLVMValueRef call, int sums, int n) {
  for (int i = 0; i < sums; i++) text_add(t, "=f,");
  for (int i = 0; i < sums; i++) text_add(t, "%d,", i);
  for (int i = sums; i < n; i++)
    text_add(t, "%s,", LLVMGetIntTypeWidth(LLVMTypeOf(LLVMGetOperand(call, (unsigned)i))) == 64 ? "l" : "r");
  text_add(t, "~{memory}");
}

// One call as inline assembly; the last operand, the form or the number of groups, is not one.
static void expand_call(LLVMModuleRef module, LLVMValueRef call, const char *name) {
  LLVMContextRef llvm = LLVMGetModuleContext(module);
  int form = 0, pending = 0, sums = 0, n = (int)LLVMGetNumArgOperands(call) - 1;
  Text text = {0}, constraint = {0};
  if (sscanf(name, PREFIX "mma.%d", &form) == 1) {
    sums = (form >> FORM_COLUMNS) / 2;
    mma_text(&text, form);
  } else if (sscanf(name, PREFIX "wait.%d.%d", &pending, &sums) == 2) {
    text_add(&text, "wgmma.wait_group.sync.aligned %d;", pending);
  }
  require_promise(text.size > 0, name);
  constraints(&constraint, call, sums, n);
  LLVMTypeRef types[MOST_SUMS + 8], results[MOST_SUMS], f32 = LLVMFloatTypeInContext(llvm);
  LLVMValueRef operands[MOST_SUMS + 8];
  for (int i = 0; i < n; i++) types[i] = LLVMTypeOf(operands[i] = LLVMGetOperand(call, (unsigned)i));
  for (int i = 0; i < sums; i++) results[i] = f32;
  LLVMTypeRef result = sums ? LLVMStructTypeInContext(llvm, results, (unsigned)sums, false)
                            : LLVMVoidTypeInContext(llvm),
              type = LLVMFunctionType(result, types, (unsigned)n, false);
  LLVMValueRef assembly = LLVMGetInlineAsm(type, text_c_string(&text), text.size, text_c_string(&constraint),
                                           constraint.size, true, false, LLVMInlineAsmDialectATT, false);
  LLVMBuilderRef builder = LLVMCreateBuilderInContext(llvm);
  LLVMPositionBuilderBefore(builder, call);
  LLVMValueRef value = LLVMBuildCall2(builder, type, assembly, operands, (unsigned)n, "");
  LLVMAddCallSiteAttribute(value, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                           LLVMCreateEnumAttribute(llvm, LLVMGetEnumAttributeKindForName("convergent", 10), 0));
  LLVMAddCallSiteAttribute(value, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                           LLVMCreateEnumAttribute(llvm, LLVMGetEnumAttributeKindForName("nounwind", 8), 0));
  LLVMDisposeBuilder(builder);
  if (sums) LLVMReplaceAllUsesWith(call, value);
  LLVMInstructionEraseFromParent(call);
  text_free(&text);
  text_free(&constraint);
}

void template_expand_assembly(LLVMModuleRef module) {
  for (LLVMValueRef f = LLVMGetFirstFunction(module), next; f; f = next) {
    const char *name = LLVMGetValueName(f);
    next = LLVMGetNextFunction(f);
    if (strncmp(name, PREFIX, strlen(PREFIX)) != 0) continue;
    for (LLVMUseRef use = LLVMGetFirstUse(f); use; use = LLVMGetFirstUse(f))
      expand_call(module, LLVMGetUser(use), name);
    LLVMDeleteFunction(f);
  }
}
