// A call of the emulator before each load, store, atomic and memory intrinsic, except where the address is a variable
// of the thread or a constant.
#include <string.h>

#include "codegen/cuda/emulate/emulate_internal.h"

// The object that an address is computed from, as far as casts and getelementptr show.
static LLVMValueRef origin(LLVMValueRef p) {
  for (;;) {
    bool step = LLVMIsAGetElementPtrInst(p) || LLVMIsAAddrSpaceCastInst(p) || LLVMIsABitCastInst(p);
    if (LLVMIsAConstantExpr(p)) {
      LLVMOpcode opcode = LLVMGetConstOpcode(p);
      step = opcode == LLVMGetElementPtr || opcode == LLVMAddrSpaceCast || opcode == LLVMBitCast;
    }
    if (!step) return p;
    p = LLVMGetOperand(p, 0);
  }
}

static void insert_check(Emulation *e, EmulatedKernel *k, LLVMValueRef before, LLVMValueRef address, LLVMValueRef bytes,
                         int64_t align, uint32_t kind) {
  LLVMValueRef from = origin(address);
  if (LLVMIsAAllocaInst(from) || LLVMIsAGlobalVariable(from)) return;
  unsigned space = LLVMGetPointerAddressSpace(LLVMTypeOf(address));
  if (space == SPACE_CONSTANT || space == SPACE_LOCAL) return;
  if (space == SPACE_SHARED && LLVMIsAConstantInt(bytes)) {
    int64_t n = (int64_t)LLVMConstIntGetZExtValue(bytes);
    int64_t least = n % 4 == 0 && align % 4 == 0 ? 4 : n % 2 == 0 && align % 2 == 0 ? 2 : 1;
    if (least < k->granule) k->granule = least;
  } else if (space != SPACE_GLOBAL) {
    k->granule = 1;
  }
  const char *symbol = space == SPACE_SHARED   ? "nnc_emu_check_shared"
                       : space == SPACE_GLOBAL ? "nnc_emu_check_global"
                                               : "nnc_emu_check_generic";
  LLVMTypeRef type, parameters[] = {e->pointer, e->i64, e->i64, e->i32, e->pointer};
  LLVMValueRef f = emulate_helper(e, symbol, e->nothing, 5, parameters, &type);
  LLVMPositionBuilderBefore(e->builder, before);
  LLVMValueRef plain = space ? LLVMBuildAddrSpaceCast(e->builder, address, e->pointer, "") : address;
  LLVMValueRef arguments[] = {plain, bytes, LLVMConstInt(e->i64, (uint64_t)(align ? align : 1), false),
                              LLVMConstInt(e->i32, kind, false), emulate_site(e, before)};
  LLVMBuildCall2(e->builder, type, f, arguments, 5, "");
}

static LLVMValueRef size_of(Emulation *e, LLVMTypeRef t) {
  return LLVMConstInt(e->i64, LLVMStoreSizeOfType(e->layout, t), false);
}

static bool starts_with(const char *s, const char *prefix) { return !strncmp(s, prefix, strlen(prefix)); }

static void check_call(Emulation *e, EmulatedKernel *k, LLVMValueRef call) {
  const char *name = LLVMGetValueName(LLVMGetCalledValue(call));
  bool copies = starts_with(name, "llvm.memcpy.") || starts_with(name, "llvm.memmove."),
       sets = starts_with(name, "llvm.memset.");
  if (starts_with(name, "nnc_emu_ldmatrix") || starts_with(name, "nnc_emu_stmatrix"))
    k->granule = k->granule < 2 ? k->granule : 2;
  if (!copies && !sets) return;
  LLVMPositionBuilderBefore(e->builder, call);
  LLVMValueRef bytes = LLVMBuildIntCast2(e->builder, LLVMGetOperand(call, 2), e->i64, false, "");
  insert_check(e, k, call, LLVMGetOperand(call, 0), bytes, 1, EMU_WRITE);
  if (copies) insert_check(e, k, call, LLVMGetOperand(call, 1), bytes, 1, EMU_READ);
}

void emulate_checks(Emulation *e, EmulatedKernel *k) {
  for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(k->function); b; b = LLVMGetNextBasicBlock(b))
    for (LLVMValueRef i = LLVMGetFirstInstruction(b), next; i; i = next) {
      next = LLVMGetNextInstruction(i);
      switch (LLVMGetInstructionOpcode(i)) {
      case LLVMLoad:
        insert_check(e, k, i, LLVMGetOperand(i, 0), size_of(e, LLVMTypeOf(i)), LLVMGetAlignment(i), EMU_READ);
        break;
      case LLVMStore:
        insert_check(e, k, i, LLVMGetOperand(i, 1), size_of(e, LLVMTypeOf(LLVMGetOperand(i, 0))), LLVMGetAlignment(i),
                     EMU_WRITE);
        break;
      case LLVMAtomicRMW:
      case LLVMAtomicCmpXchg: {
        LLVMTypeRef t = LLVMTypeOf(LLVMGetOperand(i, 1));
        insert_check(e, k, i, LLVMGetOperand(i, 0), size_of(e, t), (int64_t)LLVMStoreSizeOfType(e->layout, t),
                     EMU_ATOMIC);
        break;
      }
      case LLVMCall: check_call(e, k, i); break;
      default: break;
      }
    }
}
