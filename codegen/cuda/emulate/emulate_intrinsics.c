// Calls of llvm.nvvm.* and of wrappers of inline assembly become calls of the emulator, with the calling convention of
// NncEmuSymbol: only integers of 32 and 64 bits, floats and pointers are passed, structs come back through memory.
#include <stdlib.h>
#include <string.h>

#include "codegen/codegen.h"
#include "codegen/cuda/emulate/emulate_internal.h"
#include "codegen/cuda/nvptx.h"
#include "codegen/kernel/emitted.h"
#include "support/alloc.h"
#include "support/text.h"

#define WRAPPER_PREFIX "nnc.asm."

static unsigned bits_of(LLVMTypeRef t) {
  switch (LLVMGetTypeKind(t)) {
  case LLVMHalfTypeKind:
  case LLVMBFloatTypeKind: return 16;
  case LLVMFloatTypeKind: return 32;
  case LLVMDoubleTypeKind: return 64;
  case LLVMIntegerTypeKind: return LLVMGetIntTypeWidth(t);
  case LLVMVectorTypeKind: return LLVMGetVectorSize(t) * bits_of(LLVMGetElementType(t));
  default: return 0;
  }
}

// The type that is passed for t; NULL: cannot be.
static LLVMTypeRef passed_type(Emulation *e, LLVMTypeRef t) {
  LLVMTypeKind kind = LLVMGetTypeKind(t);
  unsigned bits = bits_of(t);
  if (kind == LLVMPointerTypeKind) return e->pointer;
  if (kind == LLVMFloatTypeKind || kind == LLVMDoubleTypeKind) return t;
  if (bits >= 1 && bits <= 32) return e->i32;
  return bits == 64 ? e->i64 : NULL;
}

static LLVMValueRef pass(Emulation *e, LLVMValueRef v) {
  LLVMTypeRef t = LLVMTypeOf(v), to = passed_type(e, t);
  LLVMTypeKind kind = LLVMGetTypeKind(t);
  if (kind == LLVMPointerTypeKind)
    return LLVMGetPointerAddressSpace(t) ? LLVMBuildAddrSpaceCast(e->builder, v, e->pointer, "") : v;
  if (t == to) return v;
  if (kind != LLVMIntegerTypeKind) v = LLVMBuildBitCast(e->builder, v, LLVMIntTypeInContext(e->llvm, bits_of(t)), "");
  return LLVMTypeOf(v) == to ? v : LLVMBuildZExt(e->builder, v, to, "");
}

// A value of type t from the bits in v, an integer or already a t.
static LLVMValueRef receive(Emulation *e, LLVMValueRef v, LLVMTypeRef t) {
  if (LLVMTypeOf(v) == t) return v;
  LLVMTypeRef narrow = LLVMIntTypeInContext(e->llvm, bits_of(t));
  if (LLVMGetTypeKind(LLVMTypeOf(v)) == LLVMIntegerTypeKind && LLVMTypeOf(v) != narrow)
    v = LLVMBuildTrunc(e->builder, v, narrow, "");
  return LLVMTypeOf(v) == t ? v : LLVMBuildBitCast(e->builder, v, t, "");
}

static LLVMValueRef entry_alloca(Emulation *e, LLVMValueRef call, LLVMTypeRef type) {
  LLVMValueRef function = LLVMGetBasicBlockParent(LLVMGetInstructionParent(call));
  LLVMPositionBuilderBefore(e->builder, LLVMGetFirstInstruction(LLVMGetEntryBasicBlock(function)));
  LLVMValueRef slot = LLVMBuildAlloca(e->builder, type, "");
  LLVMPositionBuilderBefore(e->builder, call);
  return slot;
}

static void add_attributes(Emulation *e, LLVMValueRef function, const NncEmuSymbol *s) {
  static const char *const always[] = {"nounwind", "convergent"}, *const pure[] = {"nounwind", "willreturn", "memory"};
  const char *const *names = s->flags & EMU_PURE ? pure : always;
  for (int i = 0; i < (s->flags & EMU_PURE ? 3 : 2); i++) {
    unsigned kind = LLVMGetEnumAttributeKindForName(names[i], strlen(names[i]));
    // memory(none) is 0
    LLVMAddAttributeAtIndex(function, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                            LLVMCreateEnumAttribute(e->llvm, kind, 0));
  }
}

static void replace_call(Emulation *e, LLVMValueRef call, const NncEmuSymbol *s) {
  LLVMTypeRef result = LLVMTypeOf(call), types[24];
  LLVMValueRef arguments[24], slot = NULL;
  int n = 0, operands = (int)LLVMGetNumArgOperands(call);
  bool structure = LLVMGetTypeKind(result) == LLVMStructTypeKind;
  LLVMPositionBuilderBefore(e->builder, call);
  if (structure) {
    LLVMTypeRef slots = LLVMArrayType2(e->i64, LLVMCountStructElementTypes(result));
    arguments[n++] = slot = entry_alloca(e, call, slots);
  }
  for (int i = 0; i < operands && n < 22; i++) {
    LLVMValueRef v = LLVMGetOperand(call, (unsigned)i);
    if (!passed_type(e, LLVMTypeOf(v))) {
      emulate_fail(e, "an operand of intrinsic '%s' has a type that the emulator cannot take", s->intrinsic);
      return;
    }
    arguments[n++] = pass(e, v);
  }
  if (s->flags & EMU_HAS_SITE) arguments[n++] = emulate_site(e, call);
  for (int i = 0; i < n; i++) types[i] = LLVMTypeOf(arguments[i]);
  bool is_void = LLVMGetTypeKind(result) == LLVMVoidTypeKind;
  LLVMTypeRef type, returned = structure || is_void ? e->nothing : passed_type(e, result);
  LLVMValueRef function = emulate_helper(e, s->symbol, returned, n, types, &type);
  add_attributes(e, function, s);
  LLVMValueRef value = LLVMBuildCall2(e->builder, type, function, arguments, (unsigned)n, "");
  if (structure) {
    value = LLVMGetPoison(result);
    for (unsigned i = 0; i < LLVMCountStructElementTypes(result); i++) {
      LLVMValueRef place = emulate_element(e, e->i64, slot, i), bits = LLVMBuildLoad2(e->builder, e->i64, place, "");
      value = LLVMBuildInsertValue(e->builder, value, receive(e, bits, LLVMStructGetTypeAtIndex(result, i)), i, "");
    }
  } else if (!is_void) {
    value = receive(e, value, result);
  }
  if (!is_void) LLVMReplaceAllUsesWith(call, value);
  LLVMInstructionEraseFromParent(call);
}

// Operands and results in one array, a word of 64 bits each.
static void replace_packed_call(Emulation *e, LLVMValueRef call, const NncEmuSymbol *s) {
  LLVMTypeRef result = LLVMTypeOf(call), type;
  unsigned operands = LLVMGetNumArgOperands(call),
           results = LLVMGetTypeKind(result) == LLVMStructTypeKind ? LLVMCountStructElementTypes(result) : 0;
  LLVMPositionBuilderBefore(e->builder, call);
  LLVMValueRef words = entry_alloca(e, call, LLVMArrayType2(e->i64, operands > results ? operands : results));
  for (unsigned i = 0; i < operands; i++) {
    LLVMValueRef v = LLVMGetOperand(call, i);
    LLVMTypeRef t = LLVMTypeOf(v);
    if (!bits_of(t) || bits_of(t) > 64) {
      emulate_fail(e, "an operand of intrinsic '%s' has a type that the emulator cannot take", s->intrinsic);
      return;
    }
    // or poison: an accumulator that is not read, rather than what the array had before
    if (LLVMIsUndef(v)) v = LLVMConstNull(t);
    if (LLVMGetTypeKind(t) != LLVMIntegerTypeKind)
      v = LLVMBuildBitCast(e->builder, v, LLVMIntTypeInContext(e->llvm, bits_of(t)), "");
    LLVMBuildStore(e->builder, LLVMBuildZExtOrBitCast(e->builder, v, e->i64, ""), emulate_element(e, e->i64, words, i));
  }
  LLVMValueRef arguments[] = {words, LLVMConstInt(e->i32, operands, false), emulate_site(e, call)};
  LLVMValueRef function = emulate_helper(e, s->symbol, e->nothing, 3, (LLVMTypeRef[]){e->pointer, e->i32, e->pointer},
                                         &type);
  add_attributes(e, function, s);
  LLVMBuildCall2(e->builder, type, function, arguments, 3, "");
  LLVMValueRef value = results ? LLVMGetPoison(result) : NULL;
  for (unsigned i = 0; i < results; i++) {
    LLVMValueRef bits = LLVMBuildLoad2(e->builder, e->i64, emulate_element(e, e->i64, words, i), "");
    value = LLVMBuildInsertValue(e->builder, value, receive(e, bits, LLVMStructGetTypeAtIndex(result, i)), i, "");
  }
  if (value) LLVMReplaceAllUsesWith(call, value);
  LLVMInstructionEraseFromParent(call);
}

static void replace_function(Emulation *e, LLVMValueRef function, const char *intrinsic) {
  const NncEmuSymbol *s = nnc_emu_find_symbol(intrinsic);
  if (!s && LLVMGetFirstUse(function)) {
    emulate_fail(e, "the emulator has no '%s'", intrinsic);
    return;
  }
  for (LLVMUseRef use = LLVMGetFirstUse(function); use && !e->error; use = LLVMGetFirstUse(function)) {
    LLVMValueRef user = LLVMGetUser(use);
    if (!LLVMIsACallInst(user) || LLVMGetCalledValue(user) != function) {
      emulate_fail(e, "'%s' is used other than by a call", intrinsic);
      return;
    }
    (s->flags & EMU_PACKED ? replace_packed_call : replace_call)(e, user, s);
  }
  if (!e->error) LLVMDeleteFunction(function);
}

void emulate_intrinsics(Emulation *e) {
  emulate_read_texts(e);
  for (LLVMValueRef f = LLVMGetFirstFunction(e->module), next; f && !e->error; f = next) {
    next = LLVMGetNextFunction(f);
    const char *name = LLVMGetValueName(f);
    char *intrinsic = NULL;
    if (!strncmp(name, nvptx_family.prefix, strlen(nvptx_family.prefix)))
      intrinsic = copy_string(name + strlen(nvptx_family.prefix));
    else if (!strncmp(name, WRAPPER_PREFIX, strlen(WRAPPER_PREFIX)))
      intrinsic = text_format("asm.%s", name + strlen(WRAPPER_PREFIX));
    if (intrinsic) replace_function(e, f, intrinsic);
    free(intrinsic);
  }
}
