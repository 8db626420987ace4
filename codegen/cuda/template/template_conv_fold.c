// The partial sums that the blocks of a large convolution leave are too many for the few threads of the launch that
// combines them by channel: here a thread for each channel and each FOLD of them joins those, in order.
#include <stdlib.h>

#include "codegen/cuda/template/template_conv.h"
#include "support/integers.h"
#include "support/text.h"

typedef struct Fold {
  Build b;
  Val workspace, channels, channel, part, first, end, positions;   // i32: row blocks [first, end) become part `part`
} Fold;

// Element (row, channel) of an array of either generation.
static Val address(Fold *f, bool folded, int array, Val row) {
  Build *b = &f->b;
  Val at = build_add(b, conv_number_i64(b, folded ? CONV_FOLDED : CONV_PARTIALS),
                     build_mul(b, conv_number_i64(b, folded ? CONV_FOLDED_PITCH : CONV_PARTIALS_PITCH),
                               build_i64_constant(b, array)));
  at = build_add(b, at,
                 build_add(b, build_mul(b, build_i64(b, row), build_i64(b, f->channels)), build_i64(b, f->channel)));
  return build_offset(b, f->workspace, build_mul(b, at, build_i64_constant(b, 4)));
}
static Val load(Fold *f, int array, Val row) { return build_load(&f->b, f->b.f32, address(f, false, array, row), 4); }

// Pixels of row blocks [first, end).
static Val count(Fold *f, Val first, Val end) {
  Build *b = &f->b;
  Val rows = build_i32(b, CONV_ROWS), low = build_mul(b, first, rows),
      high = build_min(b, build_mul(b, end, rows), f->positions);
  return LLVMBuildSIToFP(b->builder, build_sub(b, high, low), b->f32, "");
}

// The sum over the row blocks of a sum, of means times their counts, or of squared differences, those of the means from
// `mean` included.
typedef enum Term { SUM, MEAN, SQUARES } Term;
static Val add_up(Fold *f, Term term, int array, Val mean) {
  Build *b = &f->b;
  Var sum = build_var(b, b->f32, build_f32(b, 0));
  Loop loop;
  Val row = build_loop(b, &loop, f->first, f->end, 1), x = load(f, array, row),
      n = term == SUM ? NULL : count(f, row, build_add(b, row, build_i32(b, 1)));
  if (term == MEAN) x = build_fmul(b, x, n);
  if (term == SQUARES) {
    Val d = build_fsub(b, load(f, array - 1, row), mean);
    x = build_ffma(b, build_fmul(b, d, n), d, x);
  }
  build_set(b, sum, build_fadd(b, build_get(b, sum), x));
  build_loop_end(b, &loop);
  return build_get(b, sum);
}

void conv_fold_build(LLVMModuleRef module, const ConvShape *c, const char *name) {
  Fold f;
  Build *b = &f.b;
  conv_kernel(b, module, name, "e");
  f.workspace = build_parameter(b, 0, "workspace");
  f.channels = conv_number(b, CONV_RESULT_CHANNELS);
  f.positions = conv_number(b, CONV_POSITIONS);
  Divisor channels = conv_divisor(b, CONV_FOLDED_CHANNELS);
  Val fold = build_i32(b, CONV_FOLD),
      tiles = build_div(b, build_add(b, f.positions, build_i32(b, CONV_ROWS - 1)), CONV_ROWS);
  Val i = build_thread_number(b, CONV_THREADS);
  f.part = build_divide(b, i, &channels, &f.channel);
  f.first = build_mul(b, f.part, fold);
  f.end = build_min(b, build_add(b, f.first, fold), tiles);
  Branch inside;
  build_if(b, &inside, build_less(b, f.first, tiles));
  for (int s = 0, array = 0; s < c->epilogue.n_sums; s++) {
    if (!c->epilogue.moments[s]) {
      build_store(b, add_up(&f, SUM, array, NULL), address(&f, true, array, f.part), 4);
      array++;
      continue;
    }
    Val mean = LLVMBuildFDiv(b->builder, add_up(&f, MEAN, array, NULL), count(&f, f.first, f.end), "");
    build_store(b, mean, address(&f, true, array, f.part), 4);
    build_store(b, add_up(&f, SQUARES, array + 1, mean), address(&f, true, array + 1, f.part), 4);
    array += 2;
  }
  build_if_end(b, &inside);
  build_finish(b);
}

char *conv_fold_symbol(const ConvShape *c) {
  // not shared by those of others: parts.c keeps the two together
  char *product = conv_template_symbol(c, conv_template_launches(c) - 1);
  Text t = {0};
  text_add(&t, "%s_fold_", product);
  for (int i = 0; i < c->epilogue.n_sums; i++) text_add(&t, "%c", c->epilogue.moments[i] ? 'm' : 's');
  free(product);
  return t.data;
}

void conv_fold_launch(const ConvShape *c, TemplateLaunch *launch) {
  conv_template_launch(c, conv_template_launches(c) - 1, launch);
  int64_t tiles = divide_up(launch->numbers[CONV_POSITIONS], CONV_ROWS), parts = divide_up(tiles, CONV_FOLD);
  launch->grid[0] = divide_up(parts * launch->numbers[CONV_RESULT_CHANNELS], CONV_THREADS);
  launch->grid[1] = launch->grid[2] = 1;
  launch->shared_bytes = 0;
}
