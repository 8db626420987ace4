// The host as a target of kernels: the buffers' addresses come in an array, transcendental functions are calls of
// glibc's vector library libmvec (at most 4 ulp).
#include <stdio.h>
#include <string.h>

#include "codegen/host/host.h"
#include "codegen/kernel/kernel.h"
#include "support/alloc.h"

static void open_function(Emitter *e, int n_buffers) {
  static const char *const types[] = {"!buffer", "i64", "i64"};
  for (int i = 0; i < 3; i++) function_add_argument(&e->function, i, types[i]);
  for (int i = 0; i < n_buffers; i++) {
    int slot = 0;
    if (i) slot = emit(e, 0, "llvm.getelementptr", VALUES(0), "%%[%d] : (!buffer) -> !buffer, !buffer", i).id;
    e->buffer[i] = emit(e, 0, "llvm.load", VALUES(slot), "%% : !buffer -> !buffer").id;
  }
}

static void declare_external(KernelModule *m, const char *symbol, int n, const char *type) {
  for (int i = 0; i < m->n_externals; i++)
    if (!strcmp(m->externals[i], symbol)) return;
  *ARRAY_ADD(m->externals, m->n_externals) = copy_string(symbol);
  text_add(&m->declarations,
           "llvm.func @%s(%s%s%s) -> %s attributes {memory_effects = #llvm.memory_effects<other = none, argMem = none, "
           "inaccessibleMem = none, "
           "errnoMem = none, targetMem0 = none, targetMem1 = none>, no_unwind, will_return}\n",
           symbol, type, n > 1 ? ", " : "", n > 1 ? type : "", type);
}

static Value call_mvec(Emitter *e, const char *name, int n, const Value *x, NnDtype dtype, int width) {
  int bytes = width * (int)nn_dtype_bytes(dtype);
  char symbol[64], type[32];
  snprintf(symbol, sizeof symbol, "_ZGV%cN%d%s_%s%s",
           bytes == 64   ? 'e'
           : bytes == 32 ? 'd'
                         : 'b',
           width, n == 1 ? "v" : "vv", name, dtype == NN_F32 ? "f" : "");
  snprintf(type, sizeof type, "vector<%dx%s>", width, element_type(dtype));
  declare_external(e->module, symbol, n, type);
  Value v;
  if (n == 1) v = emit(e, x[0].depth, "llvm.call", VALUES(x[0].id), "@%s(%%) : (%s) -> %s", symbol, type, type);
  else
    v = emit(e, depth_max(x[0], x[1]), "llvm.call", VALUES(x[0].id, x[1].id), "@%s(%%, %%) : (%s, %s) -> %s", symbol,
             type, type, type);
  v.varies = x[0].varies || (n > 1 && x[1].varies);
  return v;
}

static Value math_call(Emitter *e, const char *name, int n, const Value *x, NnDtype dtype) {
  int widest = e->module->target.vector_bytes / (int)nn_dtype_bytes(dtype), narrowest = 16 / (int)nn_dtype_bytes(dtype);
  if (e->lanes >= narrowest && e->lanes <= widest) return call_mvec(e, name, n, x, dtype, e->lanes);
  int count = e->lanes < narrowest ? e->lanes : widest, width = e->lanes < narrowest ? narrowest : widest;
  const char *element = element_type(dtype);
  Value joined = {0};
  for (int first = 0; first < e->lanes; first += count) {
    Value part[2];
    for (int i = 0; i < n; i++) part[i] = emit_take_lanes(e, x[i], element, e->lanes, first, count, width);
    Value y = call_mvec(e, name, n, part, dtype, width);
    if (count < width) return emit_take_lanes(e, y, element, width, 0, count, count);
    if (!first) joined = emit_splat(e, dtype, 0);
    joined = emit(e, depth_max(joined, y), "vector.insert_strided_slice", VALUES(y.id, joined.id),
                  "%%, %% {offsets = [%d], strides = [1]} : vector<%dx%s> into %s", first, width, element,
                  vector_type(e, dtype).text);
    joined.varies = y.varies;
  }
  return joined;
}

KernelTarget kernel_target_host(const HostCpu *cpu) {
  return (KernelTarget){.pointer = "!llvm.ptr",
                        .vector_bytes = cpu->vector_bytes,
                        .open = open_function,
                        .math = math_call};
}
