// Kernels of every kind, op and element type at sizes that are 1, prime, and not a multiple of any vector. Included by
// test_kernels.c (host) and test_cuda_kernels.c.
#include "support/text.h"
#include "test/codegen/kernel_run.c"

// ---------------------------------------------------------------------------------------------------------------------
// Cases

// All maps of one float in ir/ops.def.
static void unary_maps(MlirModule m, NnDtype t, int64_t n) {
  NnType type = SHAPE(t, n);
  for (int op = 0; op < NN_OP_COUNT; op++) {
    const NnOpInfo *info = nn_op_info((NnOp)op);
    if (info->kind != NN_KIND_MAP || info->n_operands != 1 || op == NN_OP_not || op == NN_OP_cast) continue;
    Fn f = fn_begin(m);
    MlirValue x = arg(&f, type);
    bool positive = op == NN_OP_log || op == NN_OP_sqrt || op == NN_OP_rsqrt;
    MlirValue y = positive ? x : nn_binary(&f.b, NN_OP_sub, x, nn_constant(&f.b, type, 1.125));
    finish(&f, "map", type, 0, NULL, RESULTS(nn_unary(&f.b, (NnOp)op, y)));
  }
}

// One function of an argument, and nothing else: these are held to 4 units in the last place.
static void functions(MlirModule m, NnDtype t, int64_t n) {
  static const NnOp ops[] = {NN_OP_exp, NN_OP_log, NN_OP_sqrt, NN_OP_sin, NN_OP_cos, NN_OP_tanh, NN_OP_erf};
  for (int i = 0; i < COUNT(ops); i++) {
    Fn f = fn_begin(m);
    MlirValue x = arg(&f, SHAPE(t, n));
    finish(&f, "map", SHAPE(t, n), 0, NULL, RESULTS(nn_unary(&f.b, ops[i], x)));
  }
  Fn f = fn_begin(m);
  MlirValue x = arg(&f, SHAPE(t, n)), y = arg(&f, SHAPE(t, n));
  finish(&f, "map", SHAPE(t, n), 0, NULL, RESULTS(nn_binary(&f.b, NN_OP_pow, x, y)));
}

static void binary_maps(MlirModule m, NnDtype t, int64_t rows, int64_t columns) {
  static const NnOp ops[] = {NN_OP_add, NN_OP_sub, NN_OP_mul, NN_OP_div, NN_OP_max, NN_OP_min, NN_OP_pow};
  NnType type = SHAPE(t, rows, columns);
  for (int i = 0; i < COUNT(ops); i++) {
    if (t == NN_U8 && (ops[i] == NN_OP_sub || ops[i] == NN_OP_pow)) continue;
    Fn f = fn_begin(m);
    MlirValue x = arg(&f, type), bias = arg(&f, SHAPE(t, columns)), scale = arg(&f, SHAPE(t, rows));
    MlirValue y = nn_binary(&f.b, ops[i], x, along(&f, bias, type, 1));
    MlirValue z = nn_binary(&f.b, ops[i], along(&f, scale, type, 0), x);
    MlirValue c = nn_compare(&f.b, "lt", y, z);
    finish(&f, "map", type, 0, NULL, RESULTS(y, c, nn_select(&f.b, c, x, z)));
  }
}

static void casts(MlirModule m, int64_t n) {
  for (int from = 0; from < NN_DTYPE_COUNT; from++)
    for (int to = 0; to < NN_DTYPE_COUNT; to++) {
      Fn f = fn_begin(m);
      MlirValue x = arg(&f, SHAPE((NnDtype)from, 3, n));
      finish(&f, "map", SHAPE(NN_F32, 3, n), 0, NULL,
             RESULTS(nn_cast(&f.b, x, (NnDtype)to), nn_compare(&f.b, "ne", x, x)));
    }
}

static void scalar_map(MlirModule m, NnDtype t) {
  Fn f = fn_begin(m);
  NnType type = nn_scalar(t);
  MlirValue x = arg(&f, type), y = arg(&f, type);
  MlirValue keep = nn_unary(&f.b, NN_OP_not, nn_compare(&f.b, "ge", x, y));
  finish(&f, "map", type, 0, NULL, RESULTS(nn_select(&f.b, keep, nn_unary(&f.b, NN_OP_exp, x), y)));
}

// The optimizer's shape: f64 scalars cast and repeated over a parameter.
static void update_map(MlirModule m, NnDtype t, int64_t n) {
  Fn f = fn_begin(m);
  NnType type = SHAPE(t, n, 7);
  MlirValue p = arg(&f, type), g = arg(&f, type), hyper = arg(&f, SHAPE(NN_F64, 6));
  MlirValue rate = nn_slice(&f.b, hyper, I64S(3), I64S(1), NULL);
  rate = nn_broadcast(&f.b, nn_cast(&f.b, nn_reshape(&f.b, rate, 0, NULL), t), type, NULL);
  finish(&f, "map", type, 0, NULL, RESULTS(nn_binary(&f.b, NN_OP_sub, p, nn_binary(&f.b, NN_OP_mul, rate, g))));
}

static void views(MlirModule m, NnDtype t, int64_t a, int64_t b, int64_t c, int64_t d) {
  Fn f = fn_begin(m);
  MlirValue x = arg(&f, SHAPE(t, a, b, c * d));
  x = nn_transpose(&f.b, nn_reshape(&f.b, x, 4, I64S(a, b, c, d)), I64S(0, 2, 1, 3));
  finish(&f, "map", SHAPE(t, a, c, b, d), 0, NULL, RESULTS(nn_binary(&f.b, NN_OP_add, x, x)));
  f = fn_begin(m);
  x = arg(&f, SHAPE(t, a, b));
  MlirValue y = arg(&f, SHAPE(t, b, a));
  finish(&f, "map", SHAPE(t, b, a), 0, NULL, RESULTS(nn_binary(&f.b, NN_OP_sub, nn_transpose(&f.b, x, I64S(1, 0)), y)));
  f = fn_begin(m);
  x = nn_slice(&f.b, arg(&f, SHAPE(t, a + 2, b, 2 * c + 3)), I64S(1, 0, 3), I64S(a, b, c), I64S(1, 1, 2));
  NnType type = SHAPE(t, a, b, c);
  MlirValue mean = arg(&f, SHAPE(t, a, 1, c));
  MlirValue root = nn_unary(&f.b, NN_OP_sign, mean);
  finish(&f, "map", type, 0, NULL,
         RESULTS(nn_binary(&f.b, NN_OP_mul, x, nn_broadcast(&f.b, root, type, I64S(0, 1, 2)))));
  // every third from 1 on of every second from 3 on: of an argument, and of what the kernel computes
  f = fn_begin(m);
  MlirValue of[2] = {arg(&f, SHAPE(t, a, 6 * c + 5)), nn_iota(&f.b, SHAPE(NN_I32, a, 6 * c + 5), 1)};
  for (int i = 0; i < 2; i++) {
    of[i] = nn_slice(&f.b, of[i], I64S(0, 3), I64S(a, 3 * c + 1), I64S(1, 2));
    of[i] = nn_slice(&f.b, of[i], I64S(0, 1), I64S(a, c), I64S(1, 3));
  }
  finish(&f, "map", SHAPE(t, a, c), 0, NULL,
         RESULTS(nn_binary(&f.b, NN_OP_add, of[0], of[0]), nn_cast(&f.b, of[1], NN_F64)));
}

// Large enough for tiles: two operands read across, one of them twice, beside one read along and one that is repeated;
// a truth value; the outermost axis read innermost.
static void transposes(MlirModule m, NnDtype t, int64_t a, int64_t b, int64_t c) {
  Fn f = fn_begin(m);
  MlirValue x = arg(&f, SHAPE(t, a, b, c)), w = arg(&f, SHAPE(t, a, b, c)), y = arg(&f, SHAPE(t, a, c, b)),
            v = arg(&f, SHAPE(t, b));
  NnType type = SHAPE(t, a, c, b);
  x = nn_transpose(&f.b, x, I64S(0, 2, 1));
  MlirValue sum = nn_binary(&f.b, NN_OP_add, nn_binary(&f.b, NN_OP_sub, x, y),
                            nn_binary(&f.b, NN_OP_max, x, nn_transpose(&f.b, w, I64S(0, 2, 1))));
  MlirValue above = nn_compare(&f.b, "gt", x, y);
  finish(&f, "map", type, 0, NULL,
         RESULTS(nn_binary(&f.b, NN_OP_sub, sum, nn_broadcast(&f.b, v, type, I64S(2))), above));
  f = fn_begin(m);
  above = arg(&f, SHAPE(NN_I1, a, b, c));
  x = arg(&f, SHAPE(t, c, a, b));
  above = nn_transpose(&f.b, above, I64S(2, 0, 1));
  finish(&f, "map", SHAPE(t, c, a, b), 0, NULL,
         RESULTS(nn_select(&f.b, above, x, nn_constant(&f.b, SHAPE(t, c, a, b), 3))));
}

// More operands read across than have tiles.
static void many_transposes(MlirModule m, NnDtype t, int64_t rows, int64_t columns) {
  Fn f = fn_begin(m);
  MlirValue sum = arg(&f, SHAPE(t, columns, rows));
  for (int i = 0; i < 8; i++)
    sum = nn_binary(&f.b, i % 2 ? NN_OP_sub : NN_OP_add, sum,
                    nn_transpose(&f.b, arg(&f, SHAPE(t, rows, columns)), I64S(1, 0)));
  finish(&f, "map", SHAPE(t, columns, rows), 0, NULL, RESULTS(sum));
}

// Copies: of short runs, which may be moved as one element, from within a tensor too; of the innermost axis.
static void permutes(MlirModule m, NnDtype t, int64_t a, int64_t b, int64_t c, int64_t d) {
  Fn f = fn_begin(m);
  finish(&f, "map", SHAPE(t, a, c, b, d), 0, NULL,
         RESULTS(nn_transpose(&f.b, arg(&f, SHAPE(t, a, b, c, d)), I64S(0, 2, 1, 3))));
  f = fn_begin(m);
  finish(&f, "map", SHAPE(t, a, c, d, b), 0, NULL,
         RESULTS(nn_transpose(&f.b, arg(&f, SHAPE(t, a, b, c, d)), I64S(0, 2, 3, 1))));
  for (int gap = 0; gap < 2; gap++) {
    f = fn_begin(m);
    MlirValue x = nn_slice(&f.b, arg(&f, SHAPE(t, a + 1, b, c, d + gap)), I64S(1, 0, 0, gap), I64S(a, b, c, d), NULL);
    finish(&f, "map", SHAPE(t, c, b, a, d), 0, NULL, RESULTS(nn_transpose(&f.b, x, I64S(2, 1, 0, 3))));
  }
}

static void logic(MlirModule m, NnDtype t, int64_t rows, int64_t columns) {
  Fn f = fn_begin(m);
  NnType type = SHAPE(t, rows, columns);
  MlirValue x = arg(&f, type), y = arg(&f, type);
  MlirValue less = nn_compare(&f.b, "lt", x, y),
            low = nn_unary(&f.b, NN_OP_not, nn_compare(&f.b, "gt", x, nn_constant(&f.b, type, 1)));
  MlirValue both = nn_select(&f.b, nn_binary(&f.b, NN_OP_and, less, low), x, y),
            either = nn_select(&f.b, nn_binary(&f.b, NN_OP_or, less, low), x, y);
  finish(&f, "map", type, 0, NULL, RESULTS(both, either));
}

// Every predicate, also where one side or both are NaN: the root of a negative number.
static void comparisons(MlirModule m, NnDtype t, int64_t n) {
  static const char *const predicates[] = {"eq", "ne", "lt", "le", "gt", "ge"};
  for (int i = 0; i < COUNT(predicates); i++) {
    Fn f = fn_begin(m);
    NnType type = SHAPE(t, n);
    MlirValue x = arg(&f, type), y = arg(&f, type);
    MlirValue root = nn_unary(&f.b, NN_OP_sqrt, nn_binary(&f.b, NN_OP_sub, x, nn_constant(&f.b, type, 1.125)));
    finish(&f, "map", type, 0, NULL,
           RESULTS(nn_compare(&f.b, predicates[i], x, y), nn_compare(&f.b, predicates[i], x, x),
                   nn_compare(&f.b, predicates[i], root, x), nn_compare(&f.b, predicates[i], x, root),
                   nn_compare(&f.b, predicates[i], root, root)));
  }
}

static void random_map(MlirModule m, NnDtype t, int64_t rows, int64_t columns) {
  Fn f = fn_begin(m);
  NnType type = SHAPE(t, rows, columns);
  MlirValue x = arg(&f, type), key = arg(&f, SHAPE(NN_I32, 4));
  MlirValue u = build(&f, NN_OP_random_uniform, 1, &key, 0, NULL, &type, 0);
  NnAttr second = NN_BOOL("second", true);
  MlirValue v = build(&f, NN_OP_random_uniform, 1, &key, 1, &second, &type, 0);
  MlirValue keep = nn_compare(&f.b, "ge", u, nn_constant(&f.b, type, 0.25));
  MlirValue y = nn_select(&f.b, keep, nn_binary(&f.b, NN_OP_mul, x, nn_constant(&f.b, type, 4.0 / 3)),
                          nn_constant(&f.b, type, 0));
  finish(&f, "map", type, 0, NULL, RESULTS(y, u, v));
}

// Draws where rows do not begin with a block of them, and where an odd number of columns is left out of what is drawn.
static void random_rows(MlirModule m, NnDtype t, int64_t rows, int64_t columns) {
  Fn f = fn_begin(m);
  NnType type = SHAPE(t, rows, columns), wide = SHAPE(t, rows, columns + 3);
  MlirValue x = arg(&f, type), key = arg(&f, SHAPE(NN_I32, 4));
  MlirValue u = build(&f, NN_OP_random_uniform, 1, &key, 0, NULL, &type, 0);
  MlirValue v = build(&f, NN_OP_random_uniform, 1, &key, 0, NULL, &wide, 0);
  v = nn_slice(&f.b, v, I64S(0, 3), I64S(rows, columns), NULL);
  MlirValue top = nn_reduce(&f.b, NN_OP_reduce_max, nn_binary(&f.b, NN_OP_add, x, u), 1, I64S(1));
  MlirValue y = nn_binary(&f.b, NN_OP_sub, nn_binary(&f.b, NN_OP_add, x, v), along(&f, top, type, 0));
  finish(&f, "row", type, 1, I64S(1), RESULTS(y, u, v));
}

static void one_hot(MlirModule m, int64_t rows, int64_t classes) {
  Fn f = fn_begin(m);
  NnType type = SHAPE(NN_I32, rows, classes);
  MlirValue labels = arg(&f, SHAPE(NN_I32, rows));
  MlirValue same = nn_compare(&f.b, "eq", nn_iota(&f.b, type, 1), along(&f, labels, type, 0));
  finish(&f, "map", type, 0, NULL, RESULTS(nn_cast(&f.b, same, NN_F32), nn_cast(&f.b, nn_iota(&f.b, type, 0), NN_F64)));
}

// softmax with its log-sum-exp: three levels, results of both shapes.
static void softmax_row(MlirModule m, NnDtype t, int64_t rows, int64_t columns) {
  Fn f = fn_begin(m);
  NnType type = SHAPE(t, rows, columns);
  MlirValue x = arg(&f, type);
  MlirValue top = nn_reduce(&f.b, NN_OP_reduce_max, x, 1, I64S(1));
  MlirValue e = nn_unary(&f.b, NN_OP_exp, nn_binary(&f.b, NN_OP_sub, x, along(&f, top, type, 0)));
  MlirValue sum = nn_reduce(&f.b, NN_OP_reduce_sum, e, 1, I64S(1));
  MlirValue y = nn_binary(&f.b, NN_OP_div, e, along(&f, sum, type, 0));
  MlirValue lse = nn_binary(&f.b, NN_OP_add, nn_unary(&f.b, NN_OP_log, sum), top);
  finish(&f, "row", type, 1, I64S(1), RESULTS(y, lse));
}

static void layernorm_row(MlirModule m, NnDtype t, int64_t rows, int64_t b, int64_t c) {
  Fn f = fn_begin(m);
  NnType type = SHAPE(t, rows, b, c), row = SHAPE(t, rows);
  MlirValue x = arg(&f, type), gamma = arg(&f, SHAPE(t, c)), beta = arg(&f, SHAPE(t, b, c));
  NnAttr axes = NN_I64S("axes", I64S(1, 2), 2);
  MlirValue mean = build(&f, NN_OP_moments, 1, &x, 1, &axes, NULL, 0),
            var = mlirOperationGetResult(nn_value_def(mean), 1);
  MlirValue rstd = nn_unary(&f.b, NN_OP_rsqrt, nn_binary(&f.b, NN_OP_add, var, nn_constant(&f.b, row, 1e-5)));
  MlirValue y = nn_binary(&f.b, NN_OP_mul, nn_binary(&f.b, NN_OP_sub, x, along(&f, mean, type, 0)),
                          along(&f, rstd, type, 0));
  y = nn_binary(&f.b, NN_OP_add, nn_binary(&f.b, NN_OP_mul, y, along(&f, gamma, type, 2)),
                nn_broadcast(&f.b, beta, type, I64S(1, 2)));
  finish(&f, "row", type, 2, I64S(1, 2), RESULTS(y, mean, rstd));
}

static void sums_row(MlirModule m, NnDtype t, int64_t rows, int64_t columns) {
  Fn f = fn_begin(m);
  NnType type = SHAPE(t, rows, columns);
  MlirValue x = arg(&f, type), y = arg(&f, SHAPE(t, rows));
  MlirValue sum = nn_reduce(&f.b, NN_OP_reduce_sum, nn_binary(&f.b, NN_OP_mul, x, along(&f, y, type, 0)), 1, I64S(1));
  MlirValue top = nn_reduce(&f.b, NN_OP_reduce_max, x, 1, I64S(1));
  finish(&f, "row", type, 1, I64S(1), RESULTS(nn_binary(&f.b, NN_OP_add, sum, y), top));
}

// Batch-norm statistics over axes 0 and 1 with running averages as the epilogue.
static void moments_column(MlirModule m, NnDtype t, int64_t a, int64_t b, int64_t c) {
  Fn f = fn_begin(m);
  NnType type = SHAPE(t, a, b, c), kept = SHAPE(t, c);
  MlirValue x = arg(&f, type), running = arg(&f, kept);
  NnAttr axes = NN_I64S("axes", I64S(0, 1), 2);
  MlirValue shifted = nn_binary(&f.b, NN_OP_add, x, nn_constant(&f.b, type, 100));
  MlirValue mean = build(&f, NN_OP_moments, 1, &shifted, 1, &axes, NULL, 0),
            var = mlirOperationGetResult(nn_value_def(mean), 1);
  MlirValue next = nn_binary(&f.b, NN_OP_add, nn_binary(&f.b, NN_OP_mul, running, nn_constant(&f.b, kept, 0.9)),
                             nn_binary(&f.b, NN_OP_mul, mean, nn_constant(&f.b, kept, 0.1)));
  finish(&f, "column", type, 2, I64S(0, 1), RESULTS(mean, var, next));
}

// Two sums over a map with a broadcast leaf, and the map itself as a result.
static void sums_column(MlirModule m, NnDtype t, int64_t a, int64_t b, int64_t c) {
  Fn f = fn_begin(m);
  NnType type = SHAPE(t, a, b, c);
  MlirValue dy = arg(&f, SHAPE(t, a, c)), x = arg(&f, type), mean = arg(&f, SHAPE(t, c));
  MlirValue g = nn_broadcast(&f.b, dy, type, I64S(0, 2)), d = nn_binary(&f.b, NN_OP_sub, x, along(&f, mean, type, 2));
  MlirValue p = nn_binary(&f.b, NN_OP_mul, g, d);
  MlirValue s0 = nn_reduce(&f.b, NN_OP_reduce_sum, g, 2, I64S(0, 1)),
            s1 = nn_reduce(&f.b, NN_OP_reduce_sum, p, 2, I64S(0, 1));
  finish(&f, "column", type, 2, I64S(0, 1), RESULTS(s0, nn_binary(&f.b, NN_OP_mul, s1, mean), d));
}

// [o, r, i]: softmax over the middle axis up to its sum; a reduction that depends on another.
static void chained_column(MlirModule m, NnDtype t, int64_t o, int64_t r, int64_t i) {
  Fn f = fn_begin(m);
  NnType type = SHAPE(t, o, r, i), kept = SHAPE(t, o, i);
  MlirValue x = arg(&f, type), top = nn_reduce(&f.b, NN_OP_reduce_max, x, 1, I64S(1));
  MlirValue e = nn_unary(&f.b, NN_OP_exp, nn_binary(&f.b, NN_OP_sub, x, nn_broadcast(&f.b, top, type, I64S(0, 2))));
  MlirValue sum = nn_reduce(&f.b, NN_OP_reduce_sum, e, 1, I64S(1));
  MlirValue lse = nn_binary(&f.b, NN_OP_add, nn_unary(&f.b, NN_OP_log, sum), top);
  finish(&f, "column", type, 1, I64S(1), RESULTS(lse, nn_binary(&f.b, NN_OP_div, lse, nn_constant(&f.b, kept, 3))));
  // with a result of the domain, in front of the second pass or behind it
  f = fn_begin(m);
  x = arg(&f, type), top = nn_reduce(&f.b, NN_OP_reduce_max, x, 1, I64S(1));
  e = nn_binary(&f.b, NN_OP_sub, x, nn_broadcast(&f.b, top, type, I64S(0, 2)));
  finish(&f, "column", type, 1, I64S(1),
         RESULTS(nn_unary(&f.b, NN_OP_neg, x), nn_reduce(&f.b, NN_OP_reduce_sum, e, 1, I64S(1))));
}

static void total_column(MlirModule m, NnDtype t, int64_t a, int64_t b) {
  Fn f = fn_begin(m);
  NnType type = SHAPE(t, a, b);
  MlirValue x = arg(&f, type), w = arg(&f, SHAPE(t, a));
  MlirValue square = nn_binary(&f.b, NN_OP_mul, x, x);
  MlirValue sum = nn_reduce(&f.b, NN_OP_reduce_sum, square, 2, I64S(0, 1));
  MlirValue weighted = nn_reduce(&f.b, NN_OP_reduce_sum, nn_binary(&f.b, NN_OP_mul, x, along(&f, w, type, 0)), 2,
                                 I64S(0, 1));
  NnAttr axes = NN_I64S("axes", I64S(0, 1), 2);
  MlirValue mean = build(&f, NN_OP_moments, 1, &x, 1, &axes, NULL, 0),
            var = mlirOperationGetResult(nn_value_def(mean), 1);
  finish(&f, "column", type, 2, I64S(0, 1), RESULTS(nn_unary(&f.b, NN_OP_sqrt, sum), weighted, var));
}

static void plain_total_column(MlirModule m, NnDtype t, int64_t n) {
  Fn f = fn_begin(m);
  NnType type = SHAPE(t, n);
  MlirValue x = arg(&f, type);
  MlirValue sum = nn_reduce(&f.b, NN_OP_reduce_sum, x, 1, I64S(0)),
            top = nn_reduce(&f.b, NN_OP_reduce_max, x, 1, I64S(0));
  finish(&f, "column", type, 1, I64S(0), RESULTS(sum, top));
}

static void finish_move(Fn *f, MlirOperation op) {
  MlirValue r[2];
  int n = (int)mlirOperationGetNumResults(op);
  for (int i = 0; i < n; i++) r[i] = mlirOperationGetResult(op, i);
  finish(f, "move", nn_value_type(r[0]), 0, NULL, n, r);
}

static MlirOperation build_move(Fn *f, NnOp op, int n, const MlirValue *x, int n_attrs, const NnAttr *attrs,
                                const NnType *asked) {
  return nn_value_def(build(f, op, n, x, n_attrs, attrs, asked, 0));
}

static void pads(MlirModule m, NnDtype t, int64_t a, int64_t b, int64_t c) {
  const int64_t low[][3] = {{1, 0, 0}, {0, 2, 0}, {2, 1, 3}, {0, 0, 1}},
                high[][3] = {{0, 3, 0}, {1, 0, 0}, {1, 2, 0}, {0, 1, 0}},
                interior[][3] = {{0, 0, 0}, {0, 1, 0}, {1, 0, 2}, {0, 0, 1}};
  for (int i = 0; i < COUNT(low); i++) {
    Fn f = fn_begin(m);
    MlirValue x = arg(&f, SHAPE(t, a, b, c));
    finish_move(&f, nn_value_def(nn_pad(&f.b, x, low[i], high[i], interior[i], 1.5)));
  }
}

static void concats(MlirModule m, NnDtype t, int64_t a, int64_t b, int64_t step) {
  for (int64_t axis = 0; axis < 3; axis++) {
    Fn f = fn_begin(m);
    MlirValue x[3];
    for (int i = 0; i < 3; i++) {
      int64_t dim[3] = {a, b, 5};
      dim[axis] += i * step;
      x[i] = arg(&f, shape(t, 3, dim));
    }
    finish_move(&f, nn_value_def(nn_concat(&f.b, 3, x, axis)));
  }
}

static void tables(MlirModule m, NnDtype t, NnDtype index, int64_t rows, int64_t width, int64_t n) {
  Fn f = fn_begin(m);
  MlirValue x[2] = {arg(&f, SHAPE(t, rows, width)), arg(&f, SHAPE(index, n, 2))};
  finish_move(&f, build_move(&f, NN_OP_gather, 2, x, 0, NULL, NULL));
  NnAttr count = NN_I64("rows", rows);
  if (!nn_dtype_is_narrow(t)) {   // those are added up in f32
    f = fn_begin(m);
    MlirValue y[2] = {arg(&f, SHAPE(t, n, 2, width)), arg(&f, SHAPE(index, n, 2))};
    finish_move(&f, build_move(&f, NN_OP_scatter_add, 2, y, 1, &count, NULL));
  }
  if (nn_dtype_is_float(t)) {
    f = fn_begin(m);
    MlirValue w[2] = {arg(&f, SHAPE(t, n, 2, width)), arg(&f, SHAPE(index, n, 2))};
    finish_move(&f, build_move(&f, NN_OP_scatter_max, 2, w, 1, &count, NULL));
  }
  if (nn_dtype_is_narrow(t)) return;
  f = fn_begin(m);
  MlirValue z[3] = {arg(&f, SHAPE(t, n, 2, width)), arg(&f, SHAPE(index, n, 2)), arg(&f, SHAPE(t, rows, width))};
  finish_move(&f, build_move(&f, NN_OP_scatter_add_to, 3, z, 0, NULL, NULL));
  f = fn_begin(m);   // the table's own rows, which may not be overwritten while they are added
  MlirValue own = arg(&f, SHAPE(t, rows, width)), to[3] = {own, arg(&f, SHAPE(index, rows)), own};
  finish_move(&f, build_move(&f, NN_OP_scatter_add_to, 3, to, 0, NULL, NULL));
}

static void argmaxes(MlirModule m, NnDtype t, int64_t a, int64_t b, int64_t c) {
  for (int64_t axis = 0; axis < 3; axis++) {
    Fn f = fn_begin(m);
    MlirValue x = arg(&f, SHAPE(t, a, b, c));
    finish_move(&f, build_move(&f, NN_OP_argmax, 1, &x, 1, &NN_I64("axis", axis), NULL));
  }
}

static void pools(MlirModule m, NnDtype t, bool last, int64_t c, int64_t h, int64_t w, const int64_t *kernel,
                  const int64_t *stride, const int64_t *pad) {
  NnType x = last ? SHAPE(t, 2, h, w, c) : SHAPE(t, 2, c, h, w);
  for (int include = 0; include < 2; include++) {
    NnAttr attrs[] = {NN_I64S("kernel", kernel, 2), NN_I64S("strides", stride, 2), NN_I64S("padding", pad, 4),
                      NN_STR("layout", last ? "nhwc" : "nchw"), NN_BOOL("include_pad", include)};
    Fn f = fn_begin(m);
    MlirValue in = arg(&f, x);
    MlirOperation average = build_move(&f, NN_OP_avgpool2d, 1, &in, 5, attrs, NULL);
    NnType y = nn_value_type(mlirOperationGetResult(average, 0)), winner = y;
    winner.dtype = NN_U8;
    finish_move(&f, average);
    f = fn_begin(m);
    in = arg(&f, y);
    finish_move(&f, build_move(&f, NN_OP_avgpool2d_grad, 1, &in, 5, attrs, &x));
    if (include) continue;
    f = fn_begin(m);
    in = arg(&f, x);
    finish_move(&f, build_move(&f, NN_OP_maxpool2d, 1, &in, 4, attrs, NULL));
    f = fn_begin(m);
    MlirValue both[2] = {arg(&f, y), arg(&f, winner)};
    finish_move(&f, build_move(&f, NN_OP_maxpool2d_grad, 2, both, 4, attrs, &x));
  }
}

__attribute__((unused)) static void build_float_cases(MlirModule m, NnDtype t) {
  // An op is the body of loops that do not depend on it: f32 and f64 share out the sizes that all ops are run at.
  bool wide = t == NN_F64;
  static const int64_t lengths[2][4] = {{1, 16, 37, 12301}, {1, 5, 37, 8200}},
                       pairs[2][4][2] = {{{1, 1}, {5, 16}, {3, 33}, {2, 1000}}, {{1, 7}, {7, 1}, {3, 33}, {17, 100}}},
                       rows[][2] = {{1, 1}, {1, 7}, {7, 1}, {5, 16}, {3, 33}, {17, 100}, {2, 1000}};
  for (int i = 0; i < 4; i++) {
    unary_maps(m, t, lengths[wide][i]);
    binary_maps(m, t, pairs[wide][i][0], pairs[wide][i][1]);
    comparisons(m, t, pairs[wide][i][0] * pairs[wide][i][1]);
  }
  functions(m, t, 40001);
  functions(m, t, WIDE);
  for (int i = 0; i < COUNT(rows); i++) {
    logic(m, t, rows[i][0], rows[i][1]);
    random_map(m, t, rows[i][0], rows[i][1]);
    random_rows(m, t, rows[i][0], rows[i][1]);
    softmax_row(m, t, rows[i][0], rows[i][1]);
    sums_row(m, t, rows[i][0], rows[i][1]);
    layernorm_row(m, t, rows[i][0], 1, rows[i][1]);
    layernorm_row(m, t, 3, rows[i][0], rows[i][1]);
    total_column(m, t, rows[i][0], rows[i][1]);
    moments_column(m, t, 1, rows[i][0], rows[i][1]);
    sums_column(m, t, rows[i][0], 2, rows[i][1]);
    chained_column(m, t, rows[i][0], 3, rows[i][1]);
  }
  static const int64_t columns[][3] = {{40, 20, 1},   {7, 97, 35},  {3, 100, 64},  {2, 4200, 3},  {9, 1000, 16},
                                       {1, 5000, 17}, {3, 33, 300}, {1, 40, 3072}, {2, 700, 1037}};
  for (int i = 0; i < COUNT(columns); i++) {
    moments_column(m, t, columns[i][0], columns[i][1], columns[i][2]);
    sums_column(m, t, columns[i][0], columns[i][1], columns[i][2]);
    chained_column(m, t, columns[i][0], columns[i][1], columns[i][2]);
    total_column(m, t, columns[i][1], columns[i][2] * columns[i][0]);
  }
  static const int64_t totals[] = {1, 17, 8192, 8193, 50021, 300007};
  for (int i = 0; i < COUNT(totals); i++) plain_total_column(m, t, totals[i]);
  scalar_map(m, t);
  update_map(m, t, 11);
  update_map(m, t, 3000);
  views(m, t, 1, 1, 1, 1);
  views(m, t, 2, 5, 3, 16);
  views(m, t, 3, 37, 2, 5);
  views(m, t, 1, 7, 1, 3);
  views(m, t, 5, 1, 9, 1);
  views(m, t, 7, 3, 5, 3);
  transposes(m, t, 2, 37, 70);
  transposes(m, t, 1, 8, 64);
  transposes(m, t, 33, 9, 31);
  many_transposes(m, t, 17, 40);
  permutes(m, t, 2, 19, 33, 2);
  permutes(m, t, 1, 3, 531, 4);
  permutes(m, t, 17, 40, 5, 3);
  pads(m, t, 2, 3, 1);
  pads(m, t, 3, 4, 21);
  pads(m, t, 2, 3, 16);
  concats(m, t, 1, 3, 1);
  concats(m, t, 4, 7000, 1);
  tables(m, t, NN_I32, 10, 1, 7);
  tables(m, t, NN_I64, 100, 37, 50);
  tables(m, t, NN_U8, 5, 64, 3);
  tables(m, t, NN_I32, 30, 1040, 150);
  tables(m, t, NN_I64, 1300, 8, 130);
  tables(m, t, NN_I32, 1, 5, 1);
  tables(m, t, NN_I32, 13, 3, 9);
  tables(m, t, NN_I64, 7, 33, 1);
  argmaxes(m, t, 2, 3, 5);
  argmaxes(m, t, 3, 1, 40);
  argmaxes(m, t, 5, 7, 132);
  for (int last = 0; last < 2; last++) {
    pools(m, t, last, 3, 8, 9, I64S(2, 2), I64S(2, 2), I64S(0, 0, 0, 0));
    pools(m, t, last, 37, 7, 5, I64S(3, 3), I64S(2, 2), I64S(1, 1, 1, 1));
    pools(m, t, last, 16, 6, 6, I64S(3, 2), I64S(1, 2), I64S(1, 0, 0, 1));
    pools(m, t, last, 1, 4, 4, I64S(4, 4), I64S(4, 4), I64S(0, 0, 0, 0));
  }
  tables(m, t, NN_I32, 1057, 257, 40);   // a GPU's blocks own rows, and a part of their columns
  tables(m, t, NN_I32, 3, 20, 700);      // it adds parts of the indices apart
  concats(m, t, 3, 16, 16);              // of whole 16 bytes: a GPU's one launch
}

// The schedules are those of f32: what differs is how elements are loaded, rounded and stored.
__attribute__((unused)) static void build_narrow_cases(MlirModule m, NnDtype t) {
  functions(m, t, WIDE);
  unary_maps(m, t, 37);
  unary_maps(m, t, 8200);
  static const int64_t rows[][2] = {{1, 1}, {7, 1}, {5, 16}, {3, 33}, {17, 100}};
  for (int i = 0; i < COUNT(rows); i++) {
    binary_maps(m, t, rows[i][0], rows[i][1]);
    random_map(m, t, rows[i][0], rows[i][1]);
    random_rows(m, t, rows[i][0], rows[i][1]);
    softmax_row(m, t, rows[i][0], rows[i][1]);
    sums_row(m, t, rows[i][0], rows[i][1]);
    layernorm_row(m, t, 3, rows[i][0], rows[i][1]);
    moments_column(m, t, 1, rows[i][0], rows[i][1]);
    chained_column(m, t, rows[i][0], 3, rows[i][1]);
  }
  static const int64_t columns[][3] = {{7, 97, 35},  {2, 4200, 3},  {9, 1000, 16},
                                       {3, 33, 300}, {1, 40, 3072}, {2, 700, 1037}};
  for (int i = 0; i < COUNT(columns); i++) {
    moments_column(m, t, columns[i][0], columns[i][1], columns[i][2]);
    sums_column(m, t, columns[i][0], columns[i][1], columns[i][2]);
  }
  plain_total_column(m, t, 50021);
  views(m, t, 3, 37, 2, 5);
  transposes(m, t, 3, 33, 40);
  pads(m, t, 3, 4, 21);
  concats(m, t, 4, 7000, 1);
  tables(m, t, NN_I32, 100, 37, 50);
  argmaxes(m, t, 3, 1, 40);
  for (int last = 0; last < 2; last++) pools(m, t, last, 37, 7, 5, I64S(3, 3), I64S(2, 2), I64S(1, 1, 1, 1));
}

// Every op that takes the type: for those whose schedules have been through other types already.
__attribute__((unused)) static void build_few_cases(MlirModule m, NnDtype t, int64_t rows, int64_t columns) {
  unary_maps(m, t, rows);
  binary_maps(m, t, rows, columns);
  logic(m, t, rows, columns);
  comparisons(m, t, columns);
  random_map(m, t, rows, columns);
  random_rows(m, t, rows, columns);
  softmax_row(m, t, rows, columns);
  layernorm_row(m, t, rows, 1, columns);
  moments_column(m, t, 7, rows, columns);
  sums_column(m, t, 2, rows, columns);
  chained_column(m, t, rows, 3, columns);
  total_column(m, t, rows, columns);
  update_map(m, t, rows);
  views(m, t, rows, columns, 2, 3);
  pads(m, t, 2, rows, columns);
  concats(m, t, rows, columns, 1);
  tables(m, t, NN_I32, rows, columns, 7);
  argmaxes(m, t, rows, 2, columns);
  for (int last = 0; last < 2; last++)
    pools(m, t, last, last ? columns : rows, 2 + rows, 7, I64S(3, 2), I64S(2, 1), I64S(1, 1, 0, 1));
}

__attribute__((unused)) static void build_integer_cases(MlirModule m) {
  static const NnDtype integers[] = {NN_I32, NN_I64, NN_U8};
  for (int i = 0; i < COUNT(integers); i++) {
    binary_maps(m, integers[i], 3, 37);
    plain_total_column(m, integers[i] == NN_U8 ? NN_I32 : integers[i], 9001);
    views(m, integers[i], 3, 19, 2, 5);
    transposes(m, integers[i], 1, 33, 17);
    permutes(m, integers[i], 3, 9, 19, 8);
    concats(m, integers[i], 2, 3, 1);
    pads(m, integers[i], 2, 3, 5);
    argmaxes(m, integers[i], 3, 2, 37);
  }
  casts(m, 1);
  casts(m, 19);
  one_hot(m, 1, 1);
  one_hot(m, 9, 10);
  one_hot(m, 5, 130);
  one_hot(m, 1, 37);
  one_hot(m, 37, 1);
  one_hot(m, 3, 7);
}

// ---------------------------------------------------------------------------------------------------------------------
// Coverage: every op that kernels are made of occurs at six shapes or more, half of them with an odd size, and at two
// with each type of floating point that it takes, one of them odd; always also with a size of 1 and with a prime from 5
// on, which is no multiple of a vector or tile

typedef struct OpShapes {
  int n, odd, ones, primes;
  uint64_t seen[6];
} OpShapes;

static bool is_prime(int64_t n) {
  for (int64_t d = 2; d * d <= n; d++)
    if (n % d == 0) return false;
  return n > 1;
}

static void note_shapes(MlirOperation op, OpShapes *shapes) {
  uint64_t hash = 14695981039346656037u;
  bool odd = false, one = false, prime = false;
  int n = (int)mlirOperationGetNumOperands(op);
  for (int i = 0; i <= n; i++) {
    NnType t = nn_value_type(i < n ? mlirOperationGetOperand(op, i) : mlirOperationGetResult(op, 0));
    for (int d = 0; d < t.rank; d++) {
      hash = (hash ^ (uint64_t)t.dim[d]) * 1099511628211u;
      odd |= t.dim[d] > 1 && t.dim[d] % 2;
      one |= t.dim[d] == 1;
      prime |= t.dim[d] >= 5 && is_prime(t.dim[d]);
    }
    hash = (hash ^ 0x5bd1e995u) * 1099511628211u;
  }
  shapes->ones += one, shapes->primes += prime;
  for (int i = 0; i < shapes->n; i++)
    if (shapes->seen[i] == hash) return;
  if (shapes->n < COUNT(shapes->seen)) shapes->seen[shapes->n++] = hash;
  shapes->odd += odd;
}

// At least so many shapes, half as many with an odd size.
static void require_shapes(const NnOpInfo *info, const char *type, const OpShapes *s, int least) {
  if (s->n >= least && 2 * s->odd >= least && s->ones && s->primes) return;
  fprintf(stderr, "%s%s: %d shapes, %d with an odd size, %d with a size of 1, %d with a prime\n", info->name, type,
          s->n, s->odd, s->ones, s->primes);
  failures++;
}

static void note_types(MlirOperation op, OpShapes by_type[NN_DTYPE_COUNT]) {
  bool has[NN_DTYPE_COUNT] = {0};
  for (int i = 0; i < (int)mlirOperationGetNumOperands(op); i++)
    has[nn_value_type(mlirOperationGetOperand(op, i)).dtype] = true;
  for (int i = 0; i < (int)mlirOperationGetNumResults(op); i++)
    has[nn_value_type(mlirOperationGetResult(op, i)).dtype] = true;
  for (int t = 0; t < NN_DTYPE_COUNT; t++)
    if (has[t]) note_shapes(op, &by_type[t]);
}

static bool takes_type(NnOp op, NnDtype t) {
  // truth values, whole numbers
  if (op == NN_OP_not || op == NN_OP_and || op == NN_OP_or || op == NN_OP_iota) return false;
  return nn_dtype_is_float(t) && !(nn_dtype_is_narrow(t) && (op == NN_OP_scatter_add || op == NN_OP_scatter_add_to));
}

__attribute__((unused)) static void check_coverage(MlirModule module) {
  static OpShapes shapes[NN_OP_COUNT], by_type[NN_OP_COUNT][NN_DTYPE_COUNT];
  MlirBlock body = mlirModuleGetBody(module);
  NN_FOREACH_OP (func, body)
    NN_FOREACH_OP (op, nn_function_body(func))
      if (nn_op_of(op) != NN_OP_NONE) note_shapes(op, &shapes[nn_op_of(op)]), note_types(op, by_type[nn_op_of(op)]);
  for (int op = 0; op < NN_OP_COUNT; op++) {
    const NnOpInfo *info = nn_op_info((NnOp)op);
    if (info->kind == NN_KIND_LIBRARY || info->kind == NN_KIND_TRANSFER || info->kind == NN_KIND_COMPOSITE ||
        info->kind == NN_KIND_MARK)
      continue;
    require_shapes(info, "", &shapes[op], COUNT(shapes[op].seen));
    for (int t = 0; t < NN_DTYPE_COUNT; t++) {
      char type[16];
      snprintf(type, sizeof type, " of %s", nn_dtype_name((NnDtype)t));
      if (takes_type((NnOp)op, (NnDtype)t)) require_shapes(info, type, &by_type[op][t], 2);
    }
  }
}

// The kernels of a module that `fuse` has made, instead of the cases above.
__attribute__((unused)) static MlirModule read_module(MlirContext ctx, const char *path) {
  FILE *f = fopen(path, "r");
  Text text = {0};
  char buf[4096];
  size_t n;
  if (!f) {
    perror(path);
    exit(1);
  }
  while ((n = fread(buf, 1, sizeof buf, f)) > 0) text_append(&text, buf, n);
  fclose(f);
  MlirModule module = mlirModuleCreateParse(ctx, mlirStringRefCreateFromCString(text_c_string(&text)));
  text_free(&text);
  if (mlirModuleIsNull(module)) exit(1);
  return module;
}
