// The end of a convolution on the tensor cores. Results go through shared memory, which the operands' tiles are done
// with, so that a thread has four neighbours of 16 bytes and a warp whole rows. They are stored or, where a map or sums
// by channel follow, each four go through a function of the module, and a thread adds up its rows of its columns. No
// two blocks add to one place: each leaves its own sums, in the workspace. Which of a kernel's endings it is, all
// threads find in an argument.

#include "codegen/cuda/template/template_conv.h"
#include "support/alloc.h"
#include "support/text.h"

// elements of a row beyond the columns: rows of a fragment meet different banks
enum { LANES = EPILOGUE_LANES, FIRST_INPUT = 4, PAD = 8 };

char *conv_product_buffers(const ConvShape *c) {
  if (!c->ending_buffers) return copy_string(conv_reorders(c) ? "r-pr" : "rrp");
  bool sums = false, plain = false;
  for (const ConvShape *e = c; e; e = e->next_ending) sums |= e->epilogue.n_sums > 0, plain |= !*e->epilogue.function;
  Text t = {0};
  // An output may lie over an input of its own shape: element by element they are read before they are written.
  text_add(&t, "r%s%s%s", conv_reorders(c) ? "-" : "r", plain ? "e" : "-", sums || conv_reorders(c) ? "e" : "-");
  for (int i = 0; i < c->ending_buffers; i++) text_add(&t, "e");
  for (int i = 0; i < c->prologue.n_inputs - 1; i++) text_add(&t, "e");
  return t.data;
}

typedef struct Site {
  ConvProductBlock *x;
  const ConvEpilogue *e;
  int pitch, row_step;   // elements of a row in shared memory; rows that the block goes through at once
  LLVMTypeRef vector;    // of LANES f32
  Val function, input[EPILOGUE_INPUTS], output[EPILOGUE_OUTPUTS];
  Val row, column, channel;   // this thread's first row and column in the tile; its channel of all groups
  Val has_column;
  Var sum[EPILOGUE_SUMS];   // vectors
} Site;

static int dtype_bytes(NncDtype t) {
  static const int bytes[] = {[NNC_F32] = 4, [NNC_F64] = 8, [NNC_BF16] = 2, [NNC_F16] = 2, [NNC_I32] = 4,
                              [NNC_I64] = 8, [NNC_U8] = 1,  [NNC_I1] = 1,   [NNC_U16] = 2};
  return bytes[t];
}

static Val address(Build *b, Val base, Val element, NncDtype t) {
  return build_offset(b, base, build_mul(b, element, build_i64_constant(b, dtype_bytes(t))));
}

static int align_of(const EpilogueValue *v) {
  int bytes = dtype_bytes(v->dtype), all = bytes * LANES;
  return !v->aligned ? bytes : all < 16 ? all : 16;
}

static Val shared_row(Site *s, Val row) {
  Build *b = &s->x->b;
  Val at = build_add(b, build_mul(b, row, build_i32(b, s->pitch)), s->column);
  return build_offset(b, s->x->a.base, build_mul(b, at, build_i32(b, 4)));
}

// The accumulators of all warps as rows in shared memory.
static void share_results(Site *s, const ConvAccumulators *sums) {
  Build *b = &s->x->b;
  Val row0 = build_add(b, s->x->warp_m, build_div(b, b->lane, 4)),
      column0 = build_add(b, s->x->warp_n, build_mul(b, build_mod(b, b->lane, 4), build_i32(b, 2)));
  Val base = build_offset(b, s->x->a.base,
                          build_mul(b, build_add(b, build_mul(b, row0, build_i32(b, s->pitch)), column0),
                                    build_i32(b, 4)));
  build_wait(b, 0);
  build_barrier(b);   // all have multiplied what lies there
  for (int m = 0; m < sums->m_tiles; m++)
    for (int half = 0; half < 2; half++)
      for (int t = 0; t < sums->n_tiles; t++) {
        Val low = build_get(b, sums->c[m][t][2 * half]), high = build_get(b, sums->c[m][t][2 * half + 1]);
        build_store(b, build_pair(b, low, high),
                    build_offset(b, base, build_i32(b, 4 * ((16 * m + 8 * half) * s->pitch + 8 * t))), 8);
      }
  build_barrier(b);
}

// ---------------------------------------------------------------------------------------------------------------------
// Row by row

// Opens the loop over this thread's rows, and the condition that there is a result.
typedef struct Rows {
  Loop loop;
  Branch inside;
  Val in_tile, row;
} Rows;
static void rows_begin(Site *s, Rows *r) {
  Build *b = &s->x->b;
  r->in_tile = build_loop(b, &r->loop, s->row, build_i32(b, CONV_ROWS), s->row_step);
  r->row = build_add(b, s->x->first_row, r->in_tile);
  build_if(b, &r->inside, build_and(b, s->has_column, build_less(b, r->row, s->x->positions)));
}
static void rows_end(Site *s, Rows *r) {
  build_if_end(&s->x->b, &r->inside);
  build_loop_end(&s->x->b, &r->loop);
}

Val conv_load_input(Build *b, const EpilogueValue *v, Val base, Val element, Val channel) {
  LLVMTypeRef type = build_dtype(b, v->dtype);
  if (v->shape == EPILOGUE_SCALAR) return build_splat(b, build_load(b, type, base, dtype_bytes(v->dtype)), LANES);
  return build_load(b, LLVMVectorType(type, LANES),
                    address(b, base, v->shape == EPILOGUE_CHANNEL ? build_i64(b, channel) : element, v->dtype),
                    align_of(v));
}

// The function's results: a struct where there are several.
static Val result_of(Site *s, Val call, int i) {
  return s->e->n_outputs + s->e->n_sums == 1 ? call : LLVMBuildExtractValue(s->x->b.builder, call, (unsigned)i, "");
}

static Val slice_element(Site *s, Val row) {
  Build *b = &s->x->b;
  Val channel = build_add(b, s->channel, conv_number(b, CONV_SLICE_FIRST));
  return build_add(b, build_mul(b, build_i64(b, row), conv_number_i64(b, CONV_SLICE_CHANNELS)), build_i64(b, channel));
}

static void finish_rows(Site *s) {
  Build *b = &s->x->b;
  Rows r;
  rows_begin(s, &r);
  Val arguments[1 + EPILOGUE_INPUTS],
      element = build_add(b, build_mul(b, build_i64(b, r.row), conv_number_i64(b, CONV_RESULT_CHANNELS)),
                          build_i64(b, s->channel));
  arguments[0] = build_load(b, s->vector, shared_row(s, r.in_tile), 16);
  for (int i = 0; i < s->e->n_inputs; i++) {
    bool slice = s->e->input[i].shape == EPILOGUE_SLICE;
    arguments[1 + i] = conv_load_input(b, &s->e->input[i], s->input[i], slice ? slice_element(s, r.row) : element,
                                       s->channel);
  }
  Val call = LLVMBuildCall2(b->builder, LLVMGlobalGetValueType(s->function), s->function, arguments,
                            1 + (unsigned)s->e->n_inputs, "");
  for (int i = 0; i < s->e->n_outputs; i++)
    build_store(b, result_of(s, call, i), address(b, s->output[i], element, s->e->output[i].dtype),
                align_of(&s->e->output[i]));
  for (int i = 0; i < s->e->n_sums; i++) {
    Val term = result_of(s, call, s->e->n_outputs + i);
    build_set(b, s->sum[i], build_fadd(b, build_get(b, s->sum[i]), term));
    if (s->e->moments[i]) build_store(b, term, shared_row(s, r.in_tile), 16);   // for the differences from the mean
  }
  rows_end(s, &r);
}

// ---------------------------------------------------------------------------------------------------------------------
// Sums of the block

// (rows gone through at once, columns of the tile), behind the results.
static Val shared_sums(Site *s, int i) {
  return build_offset(&s->x->b, s->x->a.base,
                      build_i32(&s->x->b, 4 * (CONV_ROWS * s->pitch + i * s->row_step * s->x->tile_columns)));
}

static void share_sum(Site *s, int i) {
  Build *b = &s->x->b;
  Val at = build_add(b, build_mul(b, s->row, build_i32(b, s->x->tile_columns)), s->column);
  build_store(b, build_get(b, s->sum[i]), build_offset(b, shared_sums(s, i), build_mul(b, at, build_i32(b, 4))), 16);
}

// Of `type`, one column or LANES, from `column` of the tile on.
static Val shared_total(Site *s, int i, LLVMTypeRef type, int align, Val column) {
  Build *b = &s->x->b;
  Val at = build_offset(b, shared_sums(s, i), build_mul(b, column, build_i32(b, 4))), total = NULL;
  for (int row = 0; row < s->row_step; row++) {
    Val part = build_load(b, type, build_offset(b, at, build_i32(b, 4 * row * s->x->tile_columns)), align);
    total = total ? build_fadd(b, total, part) : part;
  }
  return total;
}

static Val block_rows(Site *s) {
  Build *b = &s->x->b;
  Val rows = build_min(b, build_sub(b, s->x->positions, s->x->first_row), build_i32(b, CONV_ROWS));
  return LLVMBuildSIToFP(b->builder, rows, b->f32, "");
}

// Differences from the block's mean, squared and added up.
static void square_differences(Site *s, int i) {
  Build *b = &s->x->b;
  Val mean = LLVMBuildFDiv(b->builder, shared_total(s, i, s->vector, 16, s->column),
                           build_splat(b, block_rows(s), LANES), "");
  build_set(b, s->sum[i], LLVMConstNull(s->vector));
  Rows r;
  rows_begin(s, &r);
  Val d = build_fsub(b, build_load(b, s->vector, shared_row(s, r.in_tile), 16), mean);
  build_set(b, s->sum[i], build_fadd(b, build_get(b, s->sum[i]), build_fmul(b, d, d)));
  rows_end(s, &r);
}

// By the threads that have a column each: into array `array` of the partial sums.
static void write_partial(Site *s, int array, Val value) {
  Build *b = &s->x->b;
  Val tile = build_div(b, s->x->first_row, CONV_ROWS),
      channel = build_add(b, build_mul(b, s->x->group, s->x->columns), build_add(b, s->x->first_column, b->tid));
  Val at = build_add(b, conv_number_i64(b, CONV_PARTIALS),
                     build_mul(b, conv_number_i64(b, CONV_PARTIALS_PITCH), build_i64_constant(b, array)));
  at = build_add(b, at,
                 build_add(b, build_mul(b, build_i64(b, tile), conv_number_i64(b, CONV_RESULT_CHANNELS)),
                           build_i64(b, channel)));
  build_store(b, value, address(b, build_parameter(b, 3, "workspace"), at, NNC_F32), 4);
}

static void write_sums(Site *s) {
  Build *b = &s->x->b;
  for (int i = 0; i < s->e->n_sums; i++) share_sum(s, i);
  build_barrier(b);
  Val own = build_and(b, build_less(b, b->tid, build_i32(b, s->x->tile_columns)),
                      build_less(b, build_add(b, s->x->first_column, b->tid), s->x->columns));
  Branch writes;
  build_if(b, &writes, own);
  for (int i = 0, array = 0; i < s->e->n_sums; array += 1 + s->e->moments[i], i++) {
    Val total = shared_total(s, i, b->f32, 4, b->tid);
    write_partial(s, array, s->e->moments[i] ? LLVMBuildFDiv(b->builder, total, block_rows(s), "") : total);
  }
  build_if_end(b, &writes);
  for (int i = 0, array = 0; i < s->e->n_sums; array += 1 + s->e->moments[i], i++) {
    if (!s->e->moments[i]) continue;
    square_differences(s, i);
    build_barrier(b);   // the means have been read
    share_sum(s, i);
    build_barrier(b);
    build_if(b, &writes, own);
    write_partial(s, array + 1, shared_total(s, i, b->f32, 4, b->tid));
    build_if_end(b, &writes);
  }
}

Val conv_inlined_function(Build *b, const char *name) {
  static const char always[] = "alwaysinline";
  Val function = LLVMGetNamedFunction(b->module, name);
  require_promise(function != NULL, "an epilogue that was not written");
  LLVMSetLinkage(function, LLVMInternalLinkage);
  LLVMAddAttributeAtIndex(function, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                          LLVMCreateEnumAttribute(b->llvm, LLVMGetEnumAttributeKindForName(always, sizeof always - 1),
                                                  0));
  return function;
}

// Four results as they lie in memory.
static Val stored_form(Build *b, TileType type, Val results) {
  if (tile_element_bytes(type) == 4) return results;
  Val pairs = LLVMGetPoison(LLVMVectorType(b->i32, LANES / 2)), lane[LANES];
  for (int i = 0; i < LANES; i++) lane[i] = LLVMBuildExtractElement(b->builder, results, build_i32(b, i), "");
  for (int i = 0; i < LANES / 2; i++)
    pairs = LLVMBuildInsertElement(b->builder, pairs, build_narrow(b, type, lane[2 * i], lane[2 * i + 1]),
                                   build_i32(b, i), "");
  return pairs;
}

static void store_results(Site *s) {
  Build *b = &s->x->b;
  int bytes = tile_element_bytes(s->x->c->type);
  Rows r;
  rows_begin(s, &r);
  Val element = build_add(b, build_mul(b, build_i64(b, r.row), conv_number_i64(b, CONV_RESULT_CHANNELS)),
                          build_i64(b, s->channel));
  Val results = build_load(b, s->vector, shared_row(s, r.in_tile), 16);
  build_store(b, stored_form(b, s->x->c->type, results),
              build_offset(b, s->x->out, build_mul(b, element, build_i64_constant(b, bytes))), LANES * bytes);
  rows_end(s, &r);
}

static void end_with(Site *s, const ConvEpilogue *e) {
  Build *b = &s->x->b;
  if (!*e->function) {
    store_results(s);
    return;
  }
  s->e = e;
  s->function = conv_inlined_function(b, e->function);
  for (int i = 0; i < e->n_inputs; i++) s->input[i] = build_parameter(b, FIRST_INPUT + i, "buffer");
  for (int i = 0; i < e->n_outputs; i++) s->output[i] = build_parameter(b, FIRST_INPUT + e->n_inputs + i, "buffer");
  for (int i = 0; i < e->n_sums; i++) s->sum[i] = build_var(b, s->vector, LLVMConstNull(s->vector));
  finish_rows(s);
  if (e->n_sums) write_sums(s);
}

void conv_end_product(ConvProductBlock *x, const ConvAccumulators *sums) {
  Build *b = &x->b;
  Site s = {.x = x,
            .pitch = x->tile_columns + PAD,
            .row_step = CONV_THREADS * LANES / x->tile_columns,
            .vector = LLVMVectorType(b->f32, LANES)};
  s.column = build_mul(b, build_mod(b, b->tid, x->tile_columns / LANES), build_i32(b, LANES));
  s.row = build_div(b, b->tid, x->tile_columns / LANES);
  Val column = build_add(b, x->first_column, s.column);
  s.has_column = build_less(b, column, x->columns);
  s.channel = build_add(b, build_mul(b, x->group, x->columns), column);
  share_results(&s, sums);
  if (!x->c->next_ending) {
    end_with(&s, &x->c->epilogue);
    return;
  }
  for (const ConvShape *c = x->c; c; c = c->next_ending) {
    Branch chosen;
    build_if(b, &chosen, build_equal(b, conv_number(b, CONV_ENDING), build_i32(b, c->ending)));
    end_with(&s, &c->epilogue);
    build_if_end(b, &chosen);
  }
}
