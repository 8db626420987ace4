// The start of a convolution with one tap where a map stands in front of it: a batch-norm's normalisation and
// activation, say. The operand is copied as it lies; once a thread's own chunks have landed it sends them through the
// map and puts them back, before the barrier behind which the block multiplies them. What lies outside of the image or
// of the channels stays zero.
#include <stddef.h>

#include "codegen/cuda/template/template_conv.h"

// The prologue's inputs but for the operand, in order; they are the kernel's last buffers.
static Val parameter(ConvProductBlock *x, int which) {
  return LLVMGetParam(x->b.function, 4 + (unsigned)(x->c->ending_buffers + which));
}

static int parts(const ConvShape *c) { return tile_chunk(c->type) / EPILOGUE_LANES; }

void conv_prologue_load(ConvProductBlock *x, Val step, ConvPrologueInputs *inputs) {
  Build *b = &x->b;
  const ConvEpilogue *e = &x->c->prologue;
  int block = 128 / tile_element_bytes(x->c->type);
  Val in_group = build_add(b, build_mul(b, step, build_i32(b, block)), x->chunk_channel),
      has = build_less(b, in_group, x->depth);
  // the first can always be read
  Val channel = build_add(b, build_mul(b, x->group, x->depth), build_select(b, has, in_group, build_i32(b, 0)));
  for (int i = 0, other = 0; i < e->n_inputs; i++) {
    if (e->input[i].shape == EPILOGUE_ELEMENT) continue;
    Val base = parameter(x, other++);
    for (int p = 0; p < parts(x->c); p++)
      inputs->value[i][p] = conv_load_input(b, &e->input[i], base, NULL,
                                            build_add(b, channel, build_i32(b, p * EPILOGUE_LANES)));
  }
}

static Val lanes_of(Build *b, Val chunk, int part) {
  Val v = LLVMGetPoison(LLVMVectorType(LLVMGetElementType(LLVMTypeOf(chunk)), EPILOGUE_LANES));
  for (int i = 0; i < EPILOGUE_LANES; i++)
    v = LLVMBuildInsertElement(b->builder, v,
                               LLVMBuildExtractElement(b->builder, chunk, build_i32(b, part * EPILOGUE_LANES + i), ""),
                               build_i32(b, i), "");
  return v;
}

void conv_prologue_apply(ConvProductBlock *x, const ConvPrologueInputs *inputs, Val stage, Val valid) {
  Build *b = &x->b;
  const ConvEpilogue *e = &x->c->prologue;
  Val function = conv_inlined_function(b, e->function);
  Tile a = x->a;
  a.base = build_offset(b, a.base, build_mul(b, stage, build_i32(b, tile_bytes(&x->a) + tile_bytes(&x->w))));
  LLVMTypeRef chunk_type = LLVMVectorType(build_dtype(b, e->output[0].dtype), (unsigned)tile_chunk(x->c->type));
  for (int i = 0; i < 4; i++) {
    Val at = build_tile_chunk(b, &a, build_add(b, build_div(b, b->tid, 8), build_i32(b, 32 * i)),
                              build_mod(b, b->tid, 8));
    Val chunk = build_load(b, chunk_type, at, 16), out = LLVMGetPoison(chunk_type);
    for (int p = 0; p < parts(x->c); p++) {
      Val arguments[EPILOGUE_INPUTS];
      for (int k = 0; k < e->n_inputs; k++)
        arguments[k] = e->input[k].shape == EPILOGUE_ELEMENT ? lanes_of(b, chunk, p) : inputs->value[k][p];
      Val made = LLVMBuildCall2(b->builder, LLVMGlobalGetValueType(function), function, arguments,
                                (unsigned)e->n_inputs, "");
      for (int l = 0; l < EPILOGUE_LANES; l++)
        out = LLVMBuildInsertElement(b->builder, out, LLVMBuildExtractElement(b->builder, made, build_i32(b, l), ""),
                                     build_i32(b, p * EPILOGUE_LANES + l), "");
    }
    Val inside = build_less(b, build_i32(b, 0), build_and(b, valid, build_i32(b, 1 << i)));
    build_store(b, build_select(b, inside, out, LLVMConstNull(chunk_type)), at, 16);
  }
}
