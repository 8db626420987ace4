// Values and control flow of kernel templates, over LLVM's builder. Variables live in memory until LLVM's sroa makes
// them registers, so that loops need no phi.
#include <stdlib.h>
#include <string.h>

#include "codegen/cuda/cuda.h"
#include "codegen/cuda/nvptx.h"
#include "codegen/cuda/template/template.h"
#include "support/alloc.h"
#include "support/text.h"

enum { GLOBAL = 1, SHARED = 3 };
#define DYNAMIC_SHARED "nnc_dynamic_shared"

TileType tile_type(NncDtype t) {
  return t == NNC_F64 ? TILE_F64 : t == NNC_BF16 ? TILE_BF16 : t == NNC_F16 ? TILE_F16 : TILE_F32;
}

const char *tile_name(TileType t) {
  static const char *const names[] = {"bf16", "f16", "tf32", "f32", "f64"};
  return names[t];
}

// ---------------------------------------------------------------------------------------------------------------------
// Kernels

static void add_parameter_attribute(Build *b, int index, const char *name, uint64_t value) {
  LLVMAddAttributeAtIndex(b->function, (LLVMAttributeIndex)index + 1,
                          LLVMCreateEnumAttribute(b->llvm, LLVMGetEnumAttributeKindForName(name, strlen(name)), value));
}

static void add_string_attribute(Build *b, const char *name, const char *value) {
  LLVMAttributeRef a = LLVMCreateStringAttribute(b->llvm, name, (unsigned)strlen(name), value, (unsigned)strlen(value));
  LLVMAddAttributeAtIndex(b->function, (LLVMAttributeIndex)LLVMAttributeFunctionIndex, a);
}

Val build_intrinsic(Build *b, const char *name, LLVMTypeRef overload, int n, Val *arguments) {
  unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
  require_promise(id != 0, name);
  LLVMTypeRef type = LLVMIntrinsicGetType(b->llvm, id, &overload, overload != NULL);
  return LLVMBuildCall2(b->builder, type, LLVMGetIntrinsicDeclaration(b->module, id, &overload, overload != NULL),
                        arguments, (unsigned)n, "");
}

static Val basic(Build *b, GpuBasic which, const Val *operands) {
  const GpuIntrinsic *i = &nvptx_family.basic[which];
  unsigned id = LLVMLookupIntrinsicID(i->name, strlen(i->name));
  Val arguments[8];
  int n = 0;
  for (const char *o = i->operands; *o; o++)
    arguments[n++] = *o == 'a'   ? build_i32(b, -1)
                     : *o == 'z' ? build_i32(b, 0)
                     : *o == 'l' ? build_i32(b, nvptx_family.last_lane)
                                 : operands[*o - '0'];
  return build_intrinsic(b, i->name, LLVMIntrinsicIsOverloaded(id) ? LLVMTypeOf(operands[0]) : NULL, n, arguments);
}

void build_kernel(Build *b, LLVMModuleRef module, const char *name, const char *parameters, int threads) {
  LLVMContextRef llvm = LLVMGetModuleContext(module);
  *b = (Build){.module = module,
               .llvm = llvm,
               .builder = LLVMCreateBuilderInContext(llvm),
               .i1 = LLVMInt1TypeInContext(llvm),
               .i8 = LLVMInt8TypeInContext(llvm),
               .i16 = LLVMInt16TypeInContext(llvm),
               .i32 = LLVMInt32TypeInContext(llvm),
               .i64 = LLVMInt64TypeInContext(llvm),
               .f32 = LLVMFloatTypeInContext(llvm),
               .f64 = LLVMDoubleTypeInContext(llvm)};
  int n = (int)strlen(parameters);
  LLVMTypeRef *types = allocate_array((size_t)n + 1, sizeof *types);
  for (int i = 0; i < n; i++) types[i] = parameters[i] == 'i' ? b->i32 : LLVMPointerTypeInContext(llvm, GLOBAL);
  b->function = LLVMAddFunction(module, name, LLVMFunctionType(LLVMVoidTypeInContext(llvm), types, (unsigned)n, false));
  free(types);
  LLVMSetFunctionCallConv(b->function, nvptx_family.kernel_convention);
  for (int i = 0; i < n; i++) {
    if (parameters[i] == '-' || parameters[i] == 'i' || parameters[i] == 'e') continue;
    add_parameter_attribute(b, i, "noalias", 0);
    if (parameters[i] != 'R') add_parameter_attribute(b, i, "align", 16);
    if (parameters[i] == 'r' || parameters[i] == 'R') add_parameter_attribute(b, i, "readonly", 0);
  }
  char *block = text_format("%d,1,1", threads);
  add_string_attribute(b, nvptx_family.threads, block);
  add_string_attribute(b, "denormal-fp-math-f32", "preserve-sign,preserve-sign");
  free(block);
  b->entry = LLVMAppendBasicBlockInContext(llvm, b->function, "variables");
  LLVMBasicBlockRef body = LLVMAppendBasicBlockInContext(llvm, b->function, "body");
  LLVMPositionBuilderAtEnd(b->builder, b->entry);
  LLVMBuildBr(b->builder, body);
  LLVMPositionBuilderAtEnd(b->builder, body);
  b->tid = basic(b, GPU_THREAD_X, NULL);
  b->lane = build_and(b, b->tid, build_i32(b, 31));
  b->warp = build_div(b, b->tid, 32);
}

void build_min_blocks(Build *b, int blocks) {
  char *text = text_format("%d", blocks);
  add_string_attribute(b, nvptx_family.blocks, text);
  free(text);
}

void build_finish(Build *b) {
  LLVMBuildRetVoid(b->builder);
  LLVMDisposeBuilder(b->builder);
}

Val build_parameter(Build *b, int index, const char *name) {
  Val p = LLVMGetParam(b->function, (unsigned)index);
  LLVMSetValueName2(p, name, strlen(name));
  return p;
}

// ---------------------------------------------------------------------------------------------------------------------
// Arithmetic

Val build_i32(Build *b, int64_t value) { return LLVMConstInt(b->i32, (uint64_t)value, true); }
Val build_f32(Build *b, double value) { return LLVMConstReal(b->f32, value); }
Val build_add(Build *b, Val x, Val y) { return LLVMBuildAdd(b->builder, x, y, ""); }
Val build_sub(Build *b, Val x, Val y) { return LLVMBuildSub(b->builder, x, y, ""); }
Val build_mul(Build *b, Val x, Val y) { return LLVMBuildMul(b->builder, x, y, ""); }
Val build_div(Build *b, Val x, int64_t y) {
  return LLVMBuildUDiv(b->builder, x, LLVMConstInt(LLVMTypeOf(x), (uint64_t)y, false), "");
}
Val build_mod(Build *b, Val x, int64_t y) {
  return LLVMBuildURem(b->builder, x, LLVMConstInt(LLVMTypeOf(x), (uint64_t)y, false), "");
}

// Granlund and Montgomery, "Division by Invariant Integers using Multiplication" (1994): n / d = (n + high word of n
// multiplier) >> shift for n below 2^31.
void template_divisor(int32_t out[3], int64_t d) {
  int shift = 0;
  while (((int64_t)1 << shift) < d) shift++;
  uint64_t multiplier = (((uint64_t)1 << 32) * (((uint64_t)1 << shift) - (uint64_t)d)) / (uint64_t)d + 1;
  out[0] = (int32_t)d;
  out[1] = (int32_t)(uint32_t)multiplier;
  out[2] = shift;
}

Val build_div_by(Build *b, Val x, const Divisor *d) {
  Val product = LLVMBuildMul(b->builder, LLVMBuildZExt(b->builder, x, b->i64, ""),
                             LLVMBuildZExt(b->builder, d->multiplier, b->i64, ""), "");
  Val high = LLVMBuildTrunc(b->builder, LLVMBuildLShr(b->builder, product, LLVMConstInt(b->i64, 32, false), ""), b->i32,
                            "");
  return LLVMBuildLShr(b->builder, build_add(b, high, x), d->shift, "");
}
Val build_divide(Build *b, Val x, const Divisor *d, Val *rest) {
  Val quotient = build_div_by(b, x, d);
  *rest = build_sub(b, x, build_mul(b, quotient, d->value));
  return quotient;
}
Val build_mod_by(Build *b, Val x, const Divisor *d) {
  Val rest;
  build_divide(b, x, d, &rest);
  return rest;
}

Val build_xor(Build *b, Val x, Val y) { return LLVMBuildXor(b->builder, x, y, ""); }
Val build_and(Build *b, Val x, Val y) { return LLVMBuildAnd(b->builder, x, y, ""); }
Val build_or(Build *b, Val x, Val y) { return LLVMBuildOr(b->builder, x, y, ""); }
Val build_less(Build *b, Val x, Val y) { return LLVMBuildICmp(b->builder, LLVMIntSLT, x, y, ""); }
Val build_equal(Build *b, Val x, Val y) { return LLVMBuildICmp(b->builder, LLVMIntEQ, x, y, ""); }
Val build_select(Build *b, Val condition, Val yes, Val no) {
  return LLVMBuildSelect(b->builder, condition, yes, no, "");
}
Val build_min(Build *b, Val x, Val y) { return build_select(b, build_less(b, x, y), x, y); }
Val build_max(Build *b, Val x, Val y) { return build_select(b, build_less(b, x, y), y, x); }
Val build_i64(Build *b, Val x) { return LLVMTypeOf(x) == b->i64 ? x : LLVMBuildSExt(b->builder, x, b->i64, ""); }

static Val contract(Val v) {
  if (LLVMIsAInstruction(v)) LLVMSetFastMathFlags(v, LLVMFastMathAllowContract | LLVMFastMathNoSignedZeros);
  return v;
}
Val build_fadd(Build *b, Val x, Val y) { return contract(LLVMBuildFAdd(b->builder, x, y, "")); }
Val build_fsub(Build *b, Val x, Val y) { return contract(LLVMBuildFSub(b->builder, x, y, "")); }
Val build_fmul(Build *b, Val x, Val y) { return contract(LLVMBuildFMul(b->builder, x, y, "")); }
Val build_fequal(Build *b, Val x, Val y) { return LLVMBuildFCmp(b->builder, LLVMRealOEQ, x, y, ""); }
Val build_ffma(Build *b, Val x, Val y, Val z) {
  return build_intrinsic(b, "llvm.fma", LLVMTypeOf(x), 3, (Val[]){x, y, z});
}
Val build_fmax(Build *b, Val x, Val y) { return build_intrinsic(b, "llvm.maxnum", LLVMTypeOf(x), 2, (Val[]){x, y}); }
Val build_exp2(Build *b, Val x) { return basic(b, GPU_EXP2, &x); }
Val build_log2(Build *b, Val x) { return basic(b, GPU_LOG2, &x); }
Val build_reciprocal(Build *b, Val x) { return basic(b, GPU_RECIPROCAL, &x); }

Val build_narrow(Build *b, TileType t, Val low, Val high) {
  Val pair = basic(b, t == TILE_BF16 ? GPU_ROUND_TWO_BF16 : GPU_ROUND_TWO_F16, (Val[]){high, low});
  return LLVMBuildBitCast(b->builder, pair, b->i32, "");
}

LLVMTypeRef build_dtype(Build *b, NncDtype t) {
  switch (t) {
  case NNC_F32: return b->f32;
  case NNC_F64: return b->f64;
  case NNC_F16: return LLVMHalfTypeInContext(b->llvm);
  case NNC_I32: return b->i32;
  case NNC_I64: return b->i64;
  case NNC_BF16:
  case NNC_U16: return b->i16;
  default: return b->i8;
  }
}

LLVMTypeRef build_memory_type(Build *b, TileType t) {
  return tile_element_bytes(t) == 2 ? b->i16 : t == TILE_F64 ? b->f64 : b->f32;
}

static Val widened(Build *b, TileType t, Val x) {
  if (t == TILE_F16)
    return LLVMBuildFPExt(b->builder, LLVMBuildBitCast(b->builder, x, LLVMHalfTypeInContext(b->llvm), ""), b->f32, "");
  return LLVMBuildBitCast(b->builder,
                          LLVMBuildShl(b->builder, LLVMBuildZExt(b->builder, x, b->i32, ""), build_i32(b, 16), ""),
                          b->f32, "");
}

static Val rounded(Build *b, TileType t, Val x) {
  if (t == TILE_F16)
    return LLVMBuildBitCast(b->builder, LLVMBuildFPTrunc(b->builder, x, LLVMHalfTypeInContext(b->llvm), ""), b->i16,
                            "");
  return LLVMBuildBitCast(b->builder, basic(b, GPU_ROUND_BF16, &x), b->i16, "");
}

// The upper half of the bits, rounded as an integer.
static LLVMValueRef round_bf16_as_integer(LLVMBuilderRef builder, LLVMValueRef x) {
  LLVMContextRef llvm = LLVMGetTypeContext(LLVMTypeOf(x));
  LLVMTypeRef i32 = LLVMInt32TypeInContext(llvm);
  LLVMValueRef bits = LLVMBuildBitCast(builder, x, i32, ""), sixteen = LLVMConstInt(i32, 16, false),
               odd = LLVMBuildAnd(builder, LLVMBuildLShr(builder, bits, sixteen, ""), LLVMConstInt(i32, 1, false), "");
  LLVMValueRef sum = LLVMBuildAdd(builder, LLVMBuildAdd(builder, bits, LLVMConstInt(i32, 0x7fff, false), ""), odd, "");
  sum = LLVMBuildSelect(builder, LLVMBuildFCmp(builder, LLVMRealUNO, x, x, ""), LLVMConstInt(i32, 0x7fc00000, false),
                        sum, "");
  return LLVMBuildTrunc(builder, LLVMBuildLShr(builder, sum, sixteen, ""), LLVMInt16TypeInContext(llvm), "");
}

void template_expand_bf16(LLVMModuleRef module) {
  LLVMValueRef intrinsic = LLVMGetNamedFunction(module, nvptx_family.basic[GPU_ROUND_BF16].name);
  if (!intrinsic) return;
  LLVMBuilderRef builder = LLVMCreateBuilderInContext(LLVMGetModuleContext(module));
  for (LLVMUseRef use = LLVMGetFirstUse(intrinsic); use; use = LLVMGetFirstUse(intrinsic)) {
    LLVMValueRef call = LLVMGetUser(use);
    LLVMPositionBuilderBefore(builder, call);
    LLVMValueRef rounded = round_bf16_as_integer(builder, LLVMGetOperand(call, 0));
    LLVMReplaceAllUsesWith(call, LLVMBuildBitCast(builder, rounded, LLVMTypeOf(call), ""));
    LLVMInstructionEraseFromParent(call);
  }
  LLVMDisposeBuilder(builder);
  LLVMDeleteFunction(intrinsic);
}

// f of x or, if that is a vector, of each of its elements.
static Val each(Build *b, TileType t, Val x, LLVMTypeRef to, Val (*f)(Build *b, TileType t, Val x)) {
  LLVMTypeRef type = LLVMTypeOf(x);
  if (tile_element_bytes(t) > 2) return x;
  if (LLVMGetTypeKind(type) != LLVMVectorTypeKind) return f(b, t, x);
  Val all = LLVMGetPoison(LLVMVectorType(to, LLVMGetVectorSize(type)));
  for (unsigned i = 0; i < LLVMGetVectorSize(type); i++)
    all = LLVMBuildInsertElement(b->builder, all, f(b, t, LLVMBuildExtractElement(b->builder, x, build_i32(b, i), "")),
                                 build_i32(b, i), "");
  return all;
}

Val build_widened(Build *b, TileType t, Val x) { return each(b, t, x, b->f32, widened); }
Val build_rounded(Build *b, TileType t, Val x) { return each(b, t, x, b->i16, rounded); }

Val build_i64_constant(Build *b, int64_t value) { return LLVMConstInt(b->i64, (uint64_t)value, true); }
Val build_element(Build *b, TileType t, Val base, Val i) {
  return build_offset(b, base, build_mul(b, i, build_i64_constant(b, tile_element_bytes(t))));
}

Val build_block_id(Build *b, char axis) { return basic(b, (GpuBasic)(GPU_BLOCK_X + axis - 'x'), NULL); }

Val build_thread_number(Build *b, int threads) {
  return build_add(b, build_mul(b, build_block_id(b, 'x'), build_i32(b, threads)), b->tid);
}

// ---------------------------------------------------------------------------------------------------------------------
// Variables, control flow

Var build_var(Build *b, LLVMTypeRef type, Val initial) {
  LLVMBasicBlockRef here = LLVMGetInsertBlock(b->builder);
  LLVMPositionBuilderBefore(b->builder, LLVMGetBasicBlockTerminator(b->entry));
  Var v = {LLVMBuildAlloca(b->builder, type, ""), type};
  LLVMPositionBuilderAtEnd(b->builder, here);
  if (initial) build_set(b, v, initial);
  return v;
}
Val build_get(Build *b, Var v) { return LLVMBuildLoad2(b->builder, v.type, v.slot, ""); }
void build_set(Build *b, Var v, Val value) { LLVMBuildStore(b->builder, value, v.slot); }

static LLVMBasicBlockRef block(Build *b, const char *name) {
  return LLVMAppendBasicBlockInContext(b->llvm, b->function, name);
}

Val build_loop(Build *b, Loop *loop, Val from, Val to, int step) {
  LLVMBasicBlockRef body = block(b, "loop");
  *loop = (Loop){.index = build_var(b, b->i32, from),
                 .head = block(b, "head"),
                 .after = block(b, "after"),
                 .step = build_i32(b, step)};
  LLVMBuildBr(b->builder, loop->head);
  LLVMPositionBuilderAtEnd(b->builder, loop->head);
  LLVMBuildCondBr(b->builder, build_less(b, build_get(b, loop->index), to), body, loop->after);
  LLVMPositionBuilderAtEnd(b->builder, body);
  return build_get(b, loop->index);
}

void build_loop_end(Build *b, Loop *loop) {
  build_set(b, loop->index, build_add(b, build_get(b, loop->index), loop->step));
  LLVMBuildBr(b->builder, loop->head);
  LLVMPositionBuilderAtEnd(b->builder, loop->after);
}

void build_if(Build *b, Branch *branch, Val condition) {
  LLVMBasicBlockRef then = block(b, "then");
  branch->after = block(b, "after");
  LLVMBuildCondBr(b->builder, condition, then, branch->after);
  LLVMPositionBuilderAtEnd(b->builder, then);
}

void build_if_end(Build *b, Branch *branch) {
  LLVMBuildBr(b->builder, branch->after);
  LLVMPositionBuilderAtEnd(b->builder, branch->after);
}

// ---------------------------------------------------------------------------------------------------------------------
// Threads, memory

void build_barrier(Build *b) { basic(b, GPU_BARRIER, NULL); }

static Val shuffle(Build *b, Val x, bool exclusive_or, Val lane) {
  if (LLVMTypeOf(x) != b->f64)
    return basic(b, exclusive_or ? GPU_SHUFFLE_XOR_F32 : GPU_SHUFFLE_FROM_F32, (Val[]){x, lane});
  Val halves = LLVMBuildBitCast(b->builder, x, LLVMVectorType(b->i32, 2), "");
  for (int i = 0; i < 2; i++) {
    Val word = LLVMBuildExtractElement(b->builder, halves, build_i32(b, i), "");
    Val moved = basic(b, exclusive_or ? GPU_SHUFFLE_XOR : GPU_SHUFFLE_FROM, (Val[]){word, lane});
    halves = LLVMBuildInsertElement(b->builder, halves, moved, build_i32(b, i), "");
  }
  return LLVMBuildBitCast(b->builder, halves, b->f64, "");
}

Val build_shuffle_xor(Build *b, Val x, int lane_mask) { return shuffle(b, x, true, build_i32(b, lane_mask)); }
Val build_shuffle_from(Build *b, Val x, Val lane) { return shuffle(b, x, false, lane); }

Val build_offset(Build *b, Val pointer, Val bytes) {
  return LLVMBuildGEP2(b->builder, LLVMInt8TypeInContext(b->llvm), pointer, &bytes, 1, "");
}

Val build_load(Build *b, LLVMTypeRef type, Val pointer, int align) {
  Val v = LLVMBuildLoad2(b->builder, type, pointer, "");
  LLVMSetAlignment(v, (unsigned)align);
  return v;
}

Val build_pair(Build *b, Val low, Val high) {
  Val pair = LLVMGetPoison(LLVMVectorType(LLVMTypeOf(low), 2));
  pair = LLVMBuildInsertElement(b->builder, pair, low, build_i32(b, 0), "");
  return LLVMBuildInsertElement(b->builder, pair, high, build_i32(b, 1), "");
}

Val build_splat(Build *b, Val x, int n) {
  Val v = LLVMGetPoison(LLVMVectorType(LLVMTypeOf(x), (unsigned)n));
  for (int i = 0; i < n; i++) v = LLVMBuildInsertElement(b->builder, v, x, build_i32(b, i), "");
  return v;
}

void build_store(Build *b, Val value, Val pointer, int align) {
  LLVMSetAlignment(LLVMBuildStore(b->builder, value, pointer), (unsigned)align);
}

Val build_shared_base(Build *b) {
  Val global = LLVMGetNamedGlobal(b->module, DYNAMIC_SHARED);
  if (global) return global;
  global = LLVMAddGlobalInAddressSpace(b->module, LLVMArrayType2(LLVMInt8TypeInContext(b->llvm), 0), DYNAMIC_SHARED,
                                       SHARED);
  LLVMSetAlignment(global, GPU_SHARED_ALIGN);
  return global;   // external: a static of its own would overlap others
}

Val build_add_rows(Build *b, Val shared, Val row, int threads, int64_t width, Val v, int bytes) {
  LLVMTypeRef type = LLVMTypeOf(v);
  Val mine = build_offset(b, shared, build_mul(b, b->tid, build_i32(b, bytes)));
  build_barrier(b);   // what was there has been read
  build_store(b, v, mine, bytes);
  build_barrier(b);
  for (int64_t half = threads / width / 2; half > 0; half /= 2) {
    Branch lower;
    build_if(b, &lower, build_less(b, row, build_i32(b, half)));
    Val other = build_load(b, type, build_offset(b, mine, build_i32(b, half * width * bytes)), bytes);
    build_store(b, LLVMBuildFAdd(b->builder, build_load(b, type, mine, bytes), other, ""), mine, bytes);
    build_if_end(b, &lower);
    if (half > 1) build_barrier(b);
  }
  return build_load(b, type, mine, bytes);   // the first row's threads wrote it themselves
}
