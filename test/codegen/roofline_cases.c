// Steps of every op and kind of kernel, and by hand what each takes at least. Included by test_roofline.c.
#include "test/codegen/kernel_build.c"

// A library's products run at the rate of their operands. Those of our own kernels on a GPU are made of tiles on the
// tensor cores, f32 as three of tf32, or, for want of tiles to fill or of tensor cores, by loops in f32 or f64.
typedef enum Maker { LIBRARY, TILES, LOOPS } Maker;

// What a step takes at least, by hand: no number of it comes from the compiler.
typedef struct Least {
  double products;   // flops of matrix products
  Maker maker;
  double zeros;        // a GPU makes so many times as many, with the zeros of a stride; 0: 1
  double arithmetic;   // operations besides; 8 for an exponential, 60 for a random number
  double passes;       // a CPU does it so many times, for each level of reduction anew; 0: 1
  double elements;     // read and written, of the type; bytes of other types
  double bytes;
  double waits;           // accesses of memory on a GPU, one behind the other
  bool host_only;         // GPUs make other ops of it before
  MlirOperation joined;   // the kernel, where a convolution is part of it: not all targets can run it
} Least;

typedef struct Case {
  const char *name;
  MlirOperation (*build)(MlirModule m, NnDtype t, Least *least);
} Case;

// ---------------------------------------------------------------------------------------------------------------------
// A step: an op, or a call of a kernel, in a public function

static Fn step_begin(MlirModule m) {
  static int counter;
  char name[32];
  snprintf(name, sizeof name, "step_%d", counter++);
  MlirLocation loc = mlirLocationUnknownGet(mlirModuleGetContext(m));
  Fn f = {.module = m, .func = nn_function_create(m, name, false, loc)};
  f.b = nn_builder_at_end(nn_function_body(f.func), loc);
  return f;
}

static MlirOperation call(Fn *kernel) {
  Fn f = step_begin(kernel->module);
  MlirBlock block = nn_function_body(kernel->func);
  MlirOperation ret = nn_function_return(kernel->func);
  MlirOperationState state = mlirOperationStateGet(mlirStringRefCreateFromCString("func.call"), f.b.loc);
  MlirAttribute name = mlirOperationGetAttributeByName(kernel->func, mlirStringRefCreateFromCString("sym_name"));
  MlirContext ctx = mlirModuleGetContext(kernel->module);
  MlirNamedAttribute callee = mlirNamedAttributeGet(mlirIdentifierGet(ctx, mlirStringRefCreateFromCString("callee")),
                                                    mlirFlatSymbolRefAttrGet(ctx, mlirStringAttrGetValue(name)));
  mlirOperationStateAddAttributes(&state, 1, &callee);
  for (intptr_t i = 0; i < mlirBlockGetNumArguments(block); i++) {
    MlirValue v = arg(&f, nn_value_type(mlirBlockGetArgument(block, i)));
    mlirOperationStateAddOperands(&state, 1, &v);
  }
  for (intptr_t r = 0; r < mlirOperationGetNumOperands(ret); r++) {
    MlirType type = mlirValueGetType(mlirOperationGetOperand(ret, r));
    mlirOperationStateAddResults(&state, 1, &type);
  }
  MlirOperation op = mlirOperationCreate(&state);
  mlirBlockAppendOwnedOperation(f.b.block, op);
  return op;
}

static MlirOperation library(MlirModule m, NnOp op, int n, const NnType *types, int n_attrs, const NnAttr *attrs,
                             const NnType *asked) {
  Fn f = step_begin(m);
  MlirValue x[8];
  for (int i = 0; i < n; i++) x[i] = arg(&f, types[i]);
  return nn_value_def(build(&f, op, n, x, n_attrs, attrs, asked, 0));
}

// ---------------------------------------------------------------------------------------------------------------------
// Maps and moves

enum { ROWS = 8192, COLUMNS = 2048, MANY = ROWS * COLUMNS };

static MlirOperation map_of(MlirModule m, NnDtype t, NnOp op, double arithmetic, Least *least) {
  Fn f = fn_begin(m);
  NnType type = SHAPE(t, ROWS, COLUMNS);
  bool binary = nn_op_info(op)->n_operands == 2;
  MlirValue x = arg(&f, type);
  finish(&f, "map", type, 0, NULL, RESULTS(binary ? nn_binary(&f.b, op, x, arg(&f, type)) : nn_unary(&f.b, op, x)));
  *least = (Least){.arithmetic = arithmetic * MANY, .elements = (binary ? 3.0 : 2.0) * MANY};
  return call(&f);
}
// clang-format off
// MAP(op, operations it takes at least)
#define MAPS(MAP) \
  MAP(neg, 1) MAP(abs, 1) MAP(sign, 1) MAP(relu, 1) MAP(floor, 1) MAP(add, 1) MAP(sub, 1) MAP(mul, 1) MAP(max, 1) \
  MAP(min, 1) MAP(div, 4) MAP(recip, 4) MAP(sqrt, 4) MAP(rsqrt, 4) MAP(exp, 8) MAP(log, 8) MAP(sin, 10) MAP(cos, 10) \
  MAP(sigmoid, 10) MAP(tanh, 16) MAP(erf, 16) MAP(pow, 40)
// clang-format on
#define MAP(op, n) \
  static MlirOperation map_##op(MlirModule m, NnDtype t, Least *least) { return map_of(m, t, NN_OP_##op, n, least); }
MAPS(MAP)
#undef MAP

static MlirOperation logic(MlirModule m, NnDtype t, Least *least) {
  Fn f = fn_begin(m);
  NnType type = SHAPE(t, ROWS, COLUMNS);
  MlirValue x = arg(&f, type), y = arg(&f, type);
  MlirValue above = nn_compare(&f.b, "gt", x, y), below = nn_compare(&f.b, "lt", x, nn_constant(&f.b, type, 1));
  MlirValue either = nn_binary(&f.b, NN_OP_or, above, nn_unary(&f.b, NN_OP_not, below));
  finish(&f, "map", type, 0, NULL, RESULTS(nn_select(&f.b, nn_binary(&f.b, NN_OP_and, either, below), x, y)));
  *least = (Least){.arithmetic = 6.0 * MANY, .elements = 3.0 * MANY};
  return call(&f);
}

static MlirValue kept(Fn *f, NnType type) {   // 0 or 2 where a random number is below one half
  NnType key = SHAPE(NN_I32, 4);
  MlirValue row = arg(f, key), u = build(f, NN_OP_random_uniform, 1, &row, 0, NULL, &type, 0);
  MlirValue keep = nn_compare(&f->b, "ge", u, nn_constant(&f->b, type, 0.5));
  return nn_select(&f->b, keep, nn_constant(&f->b, type, 2), nn_constant(&f->b, type, 0));
}

static MlirOperation dropout(MlirModule m, NnDtype t, Least *least) {
  Fn f = fn_begin(m);
  NnType type = SHAPE(t, ROWS, COLUMNS);
  MlirValue x = arg(&f, type);
  finish(&f, "map", type, 0, NULL, RESULTS(nn_binary(&f.b, NN_OP_mul, x, kept(&f, type))));
  *least = (Least){.arithmetic = 63.0 * MANY, .elements = 2.0 * MANY};
  return call(&f);
}

// A quarter of an operand, as queries, keys and values are parts of one tensor.
static MlirOperation part(MlirModule m, NnDtype t, Least *least) {
  Fn f = fn_begin(m);
  NnType type = SHAPE(t, ROWS, COLUMNS);
  MlirValue x = arg(&f, SHAPE(t, ROWS, 4 * COLUMNS));
  x = nn_slice(&f.b, x, I64S(0, COLUMNS), I64S(ROWS, COLUMNS), NULL);
  finish(&f, "map", type, 0, NULL, RESULTS(nn_unary(&f.b, NN_OP_relu, x)));
  *least = (Least){.arithmetic = MANY, .elements = 2.0 * MANY};
  return call(&f);
}

static MlirOperation transpose(MlirModule m, NnDtype t, Least *least) {
  Fn f = fn_begin(m);
  MlirValue x = arg(&f, SHAPE(t, ROWS, COLUMNS));
  finish(&f, "map", SHAPE(t, COLUMNS, ROWS), 0, NULL, RESULTS(nn_transpose(&f.b, x, I64S(1, 0))));
  *least = (Least){.elements = 2.0 * MANY};
  return call(&f);
}

static MlirOperation pad(MlirModule m, NnDtype t, Least *least) {
  Fn f = fn_begin(m);
  MlirValue x = arg(&f, SHAPE(t, ROWS, COLUMNS));
  MlirValue y = nn_pad(&f.b, x, I64S(0, 16), I64S(0, 16), I64S(0, 0), 0);
  finish(&f, "move", nn_value_type(y), 0, NULL, RESULTS(y));
  *least = (Least){.elements = 2.0 * MANY};
  return call(&f);
}

static MlirOperation copy(MlirModule m, NnDtype t, Least *least) {
  Fn f = step_begin(m);
  MlirValue x = arg(&f, SHAPE(t, ROWS, COLUMNS));
  *least = (Least){.elements = 2.0 * MANY};
  return nn_build(&f.b, NN_OP_copy, 1, &x, 0, NULL, NULL);
}

static MlirOperation exchange(MlirModule m, NnDtype t, Least *least, NnOp op, int n) {
  Fn f = step_begin(m);
  MlirValue x[2] = {arg(&f, SHAPE(t, ROWS, COLUMNS)), arg(&f, SHAPE(t, ROWS, COLUMNS))};
  *least = (Least){.elements = 2.0 * MANY};
  return nn_build(&f.b, op, n, x, 0, NULL, NULL);
}

static MlirOperation all_reduce(MlirModule m, NnDtype t, Least *least) {
  return exchange(m, t, least, NN_OP_all_reduce, 1);
}

// On one rank they move as much as the others.
static MlirOperation in_parts(MlirModule m, NnDtype t, Least *least, NnOp op, bool flat) {
  Fn f = step_begin(m);
  MlirValue x = flat ? arg(&f, SHAPE(t, ROWS * COLUMNS)) : arg(&f, SHAPE(t, ROWS, COLUMNS));
  *least = (Least){.elements = 2.0 * MANY};
  return nn_build(&f.b, op, 1, &x, 1, &NN_I64("ranks", 1), NULL);
}

static MlirOperation reduce_scatter(MlirModule m, NnDtype t, Least *least) {
  return in_parts(m, t, least, NN_OP_reduce_scatter, false);
}

static MlirOperation all_gather(MlirModule m, NnDtype t, Least *least) {
  return in_parts(m, t, least, NN_OP_all_gather, true);
}

static MlirOperation rank_part(MlirModule m, NnDtype t, Least *least) {
  return in_parts(m, t, least, NN_OP_rank_part, false);
}

static MlirOperation rank_receive(MlirModule m, NnDtype t, Least *least) {
  return exchange(m, t, least, NN_OP_rank_receive, 2);
}

static MlirOperation rank_send(MlirModule m, NnDtype t, Least *least) {
  return exchange(m, t, least, NN_OP_rank_send, 1);
}

static MlirOperation concat(MlirModule m, NnDtype t, Least *least) {
  Fn f = fn_begin(m);
  MlirValue x[3];
  for (int i = 0; i < 3; i++) x[i] = arg(&f, SHAPE(t, ROWS, COLUMNS));
  MlirValue y = nn_concat(&f.b, 3, x, 1);
  finish(&f, "move", nn_value_type(y), 0, NULL, RESULTS(y));
  *least = (Least){.elements = 6.0 * MANY};
  return call(&f);
}

// Of a table of `rows` as many as there are tokens.
static MlirOperation gather_of(MlirModule m, NnDtype t, int64_t rows, int64_t row, int64_t tokens, Least *least) {
  Fn f = fn_begin(m);
  MlirValue x[2] = {arg(&f, SHAPE(t, rows, row)), arg(&f, SHAPE(NN_I32, tokens))};
  MlirValue y = build(&f, NN_OP_gather, 2, x, 0, NULL, NULL, 0);
  finish(&f, "move", nn_value_type(y), 0, NULL, RESULTS(y));
  double read = (double)(rows < tokens ? rows : tokens);
  *least = (Least){.elements = (read + (double)tokens) * (double)row, .bytes = 4.0 * (double)tokens};
  return call(&f);
}
static MlirOperation gather(MlirModule m, NnDtype t, Least *l) { return gather_of(m, t, 50257, 768, 16384, l); }
static MlirOperation gather_few(MlirModule m, NnDtype t, Least *l) { return gather_of(m, t, 1 << 22, 1, 1 << 16, l); }
static MlirOperation gather_again(MlirModule m, NnDtype t, Least *l) { return gather_of(m, t, 1024, 768, 16384, l); }

// A block owns some rows of the table, looks at 256 indices at a time, and adds its rows one after the other; where the
// rows are few, some of the indices.
static MlirOperation scatter_of(MlirModule m, NnDtype t, NnOp op, int64_t rows, int64_t row, int64_t tokens,
                                Least *least) {
  Fn f = fn_begin(m);
  t = nn_dtype_wide(t);
  MlirValue x[3] = {arg(&f, SHAPE(t, tokens, row)), arg(&f, SHAPE(NN_I32, tokens))};
  if (op == NN_OP_scatter_add_to) x[2] = arg(&f, SHAPE(t, rows, row));
  NnAttr attrs[] = {NN_I64("rows", rows)};
  bool to = op == NN_OP_scatter_add_to;
  MlirValue y = build(&f, op, to ? 3 : 2, x, to ? 0 : 1, attrs, NULL, 0);
  finish(&f, "move", nn_value_type(y), 0, NULL, RESULTS(y));
  double touched = (double)(rows < tokens ? rows : tokens), blocks = (double)(rows < 1056 ? rows : 1056),
         parts = (double)(rows < tokens / 256 ? 1056 / blocks : 1),
         moved = ((double)tokens + (to ? 2 * touched : (double)rows)) * (double)row;
  *least = (Least){.arithmetic = (double)(tokens * row),
                   .bytes = moved * (double)nn_dtype_bytes(t) + 4.0 * (double)tokens,
                   .waits = ((double)tokens / 256 + (double)tokens / blocks / 8) / parts};
  return call(&f);
}
static MlirOperation scatter(MlirModule m, NnDtype t, Least *l) {
  return scatter_of(m, t, NN_OP_scatter_add, 50257, 768, 16384, l);
}
static MlirOperation scatter_edges(MlirModule m, NnDtype t, Least *l) {
  return scatter_of(m, t, NN_OP_scatter_add, 19717, 64, 1 << 20, l);
}
static MlirOperation scatter_few(MlirModule m, NnDtype t, Least *l) {
  return scatter_of(m, t, NN_OP_scatter_add, 16, 256, 1 << 16, l);
}
static MlirOperation scatter_to(MlirModule m, NnDtype t, Least *l) {
  return scatter_of(m, t, NN_OP_scatter_add_to, 50257, 768, 16384, l);
}
static MlirOperation scatter_max(MlirModule m, NnDtype t, Least *l) {
  return scatter_of(m, t, NN_OP_scatter_max, 50257, 768, 16384, l);
}

// Functions along the rows of a table, in f32 or f64. Sorting compares each element with others of its row eleven
// times, one for each bit of an index.
static MlirOperation cumulative(MlirModule m, NnDtype t, Least *least) {
  t = nn_dtype_wide(t);
  *least = (Least){.arithmetic = MANY, .bytes = 2.0 * MANY * (double)nn_dtype_bytes(t)};
  return library(m, NN_OP_cumulative, 1, (NnType[]){SHAPE(t, ROWS, COLUMNS)}, 2,
                 (NnAttr[]){NN_I64("axis", 1), NN_STR("kind", "sum")}, NULL);
}
// The spectra of rows, a complex transform of half the length and what joins its halves: five operations for each of
// its numbers and each bit of their index, and ten to join.
static MlirOperation fourier(MlirModule m, NnDtype t, Least *least) {
  enum { NUMBERS = COLUMNS / 2, BITS = 10 };
  t = nn_dtype_wide(t);
  *least = (Least){.arithmetic = (double)ROWS * NUMBERS * (5 * BITS + 10),
                   .bytes = (double)ROWS * (COLUMNS + 2 * (NUMBERS + 1)) * (double)nn_dtype_bytes(t),
                   .host_only = true};
  return library(m, NN_OP_fourier, 1, (NnType[]){SHAPE(t, ROWS, COLUMNS)}, 2,
                 (NnAttr[]){NN_I64("length", COLUMNS), NN_STR("kind", "real")}, NULL);
}
static MlirOperation recurrence(MlirModule m, NnDtype t, Least *least) {
  t = nn_dtype_wide(t);
  *least = (Least){.arithmetic = 2.0 * MANY, .bytes = 3.0 * MANY * (double)nn_dtype_bytes(t)};
  return library(m, NN_OP_recurrence, 2, (NnType[]){SHAPE(t, ROWS, COLUMNS), SHAPE(t, ROWS, COLUMNS)}, 1,
                 (NnAttr[]){NN_I64("axis", 1)}, NULL);
}
static MlirOperation argsort(MlirModule m, NnDtype t, Least *least) {
  t = nn_dtype_wide(t);
  *least = (Least){.arithmetic = 11.0 * 3 * MANY, .bytes = (4.0 + (double)nn_dtype_bytes(t)) * MANY};
  return library(m, NN_OP_argsort, 1, (NnType[]){SHAPE(t, ROWS, COLUMNS)}, 2,
                 (NnAttr[]){NN_I64("axis", 1), NN_I64("count", COLUMNS)}, NULL);
}
static MlirOperation take_along(MlirModule m, NnDtype t, Least *least) {
  t = nn_dtype_wide(t);
  *least = (Least){.bytes = (4.0 + 2.0 * (double)nn_dtype_bytes(t)) * MANY};
  return library(m, NN_OP_take_along, 2, (NnType[]){SHAPE(t, ROWS, COLUMNS), SHAPE(NN_I32, ROWS, COLUMNS)}, 1,
                 (NnAttr[]){NN_I64("axis", 1)}, NULL);
}
static MlirOperation scatter_along(MlirModule m, NnDtype t, Least *least) {
  t = nn_dtype_wide(t);
  *least = (Least){.arithmetic = MANY, .bytes = (4.0 + 2.0 * (double)nn_dtype_bytes(t)) * MANY};
  return library(m, NN_OP_scatter_along, 2, (NnType[]){SHAPE(t, ROWS, COLUMNS), SHAPE(NN_I32, ROWS, COLUMNS)}, 2,
                 (NnAttr[]){NN_I64("axis", 1), NN_I64("size", COLUMNS)}, NULL);
}

static MlirOperation argmax(MlirModule m, NnDtype t, Least *least) {
  Fn f = fn_begin(m);
  MlirValue x = arg(&f, SHAPE(t, ROWS, COLUMNS));
  MlirValue y = build(&f, NN_OP_argmax, 1, &x, 1, (NnAttr[]){NN_I64("axis", 1)}, NULL, 0);
  finish(&f, "move", nn_value_type(y), 0, NULL, RESULTS(y));
  *least = (Least){.elements = MANY, .bytes = 4.0 * ROWS};
  return call(&f);
}

// 64 images of 56 x 56 x 64, windows of 2 x 2.
static MlirOperation pool_of(MlirModule m, NnDtype t, NnOp op, Least *least) {
  Fn f = fn_begin(m);
  bool gradient = op == NN_OP_maxpool2d_grad || op == NN_OP_avgpool2d_grad, max = op == NN_OP_maxpool2d;
  NnType x = SHAPE(t, 64, 56, 56, 64), y = SHAPE(t, 64, 28, 28, 64);
  MlirValue operand[2] = {arg(&f, gradient ? y : x)};
  if (op == NN_OP_maxpool2d_grad) operand[1] = arg(&f, SHAPE(NN_U8, 64, 28, 28, 64));
  NnAttr attrs[] = {NN_I64S("kernel", I64S(2, 2), 2), NN_I64S("strides", I64S(2, 2), 2),
                    NN_I64S("padding", I64S(0, 0, 0, 0), 4), NN_STR("layout", "nhwc")};
  MlirOperation o = nn_build(&f.b, op, op == NN_OP_maxpool2d_grad ? 2 : 1, operand, 4, attrs, gradient ? &x : NULL);
  MlirValue results[2] = {mlirOperationGetResult(o, 0)};
  if (max) results[1] = mlirOperationGetResult(o, 1);
  finish(&f, "move", nn_value_type(results[0]), 0, NULL, max ? 2 : 1, results);
  double small = (double)nn_type_elements(&y);
  *least = (Least){.arithmetic = 4 * small,
                   .elements = 5 * small,
                   .bytes = op == NN_OP_maxpool2d || op == NN_OP_maxpool2d_grad ? small : 0};
  return call(&f);
}
static MlirOperation maxpool(MlirModule m, NnDtype t, Least *l) { return pool_of(m, t, NN_OP_maxpool2d, l); }
static MlirOperation maxpool_grad(MlirModule m, NnDtype t, Least *l) { return pool_of(m, t, NN_OP_maxpool2d_grad, l); }
static MlirOperation avgpool(MlirModule m, NnDtype t, Least *l) { return pool_of(m, t, NN_OP_avgpool2d, l); }
static MlirOperation avgpool_grad(MlirModule m, NnDtype t, Least *l) { return pool_of(m, t, NN_OP_avgpool2d_grad, l); }

// ---------------------------------------------------------------------------------------------------------------------
// Reductions

static MlirValue wide(Fn *f, MlirValue x) { return nn_cast(&f->b, x, nn_dtype_wide(nn_value_type(x).dtype)); }

static MlirOperation total(MlirModule m, NnDtype t, Least *least) {
  Fn f = fn_begin(m);
  NnType type = SHAPE(t, ROWS, COLUMNS);
  MlirValue x = wide(&f, arg(&f, type));
  finish(&f, "column", type, 2, I64S(0, 1),
         RESULTS(nn_reduce(&f.b, NN_OP_reduce_sum, nn_binary(&f.b, NN_OP_mul, x, x), 2, I64S(0, 1))));
  *least = (Least){.arithmetic = 2.0 * MANY, .elements = MANY};
  return call(&f);
}

static MlirOperation columns(MlirModule m, NnDtype t, Least *least) {
  Fn f = fn_begin(m);
  NnType type = SHAPE(t, ROWS, COLUMNS);
  MlirValue x = wide(&f, arg(&f, type));
  finish(&f, "column", type, 1, I64S(0), RESULTS(nn_reduce(&f.b, NN_OP_reduce_sum, x, 1, I64S(0))));
  *least = (Least){.arithmetic = MANY, .elements = MANY};
  return call(&f);
}

static MlirOperation moments(MlirModule m, NnDtype t, Least *least) {
  Fn f = fn_begin(m);
  NnType type = SHAPE(t, 64, 56, 56, 64);
  MlirValue x = wide(&f, arg(&f, type)), mean = nn_reduce(&f.b, NN_OP_moments, x, 3, I64S(0, 1, 2));
  finish(&f, "column", type, 3, I64S(0, 1, 2), RESULTS(mean, mlirOperationGetResult(nn_value_def(mean), 1)));
  double n = (double)nn_type_elements(&type);
  *least = (Least){.arithmetic = 3 * n, .elements = n};
  return call(&f);
}

static MlirOperation softmax_of(MlirModule m, NnDtype t, int64_t rows, int64_t n, bool drops, Least *least) {
  Fn f = fn_begin(m);
  NnType type = SHAPE(t, rows, n);
  MlirValue x = wide(&f, arg(&f, type));
  if (drops) x = nn_binary(&f.b, NN_OP_mul, x, wide(&f, kept(&f, type)));
  NnType domain = nn_value_type(x);
  MlirValue most = along(&f, nn_reduce(&f.b, NN_OP_reduce_max, x, 1, I64S(1)), domain, 0);
  MlirValue e = nn_unary(&f.b, NN_OP_exp, nn_binary(&f.b, NN_OP_sub, x, most));
  MlirValue sum = along(&f, nn_reduce(&f.b, NN_OP_reduce_sum, e, 1, I64S(1)), domain, 0);
  finish(&f, "row", type, 1, I64S(1), RESULTS(nn_cast(&f.b, nn_binary(&f.b, NN_OP_div, e, sum), t)));
  double elements = (double)(rows * n);
  *least = (Least){.arithmetic = elements * (drops ? 80 : 16), .passes = 3, .elements = 2 * elements};
  return call(&f);
}
static MlirOperation softmax(MlirModule m, NnDtype t, Least *l) { return softmax_of(m, t, 65536, 512, false, l); }
static MlirOperation softmax_dropout(MlirModule m, NnDtype t, Least *l) {
  return softmax_of(m, t, 65536, 512, true, l);
}
static MlirOperation softmax_long(MlirModule m, NnDtype t, Least *l) { return softmax_of(m, t, 2048, 50304, false, l); }

static MlirOperation layernorm_of(MlirModule m, NnDtype t, bool drops, Least *least) {
  Fn f = fn_begin(m);
  NnType type = SHAPE(t, 16384, 768);
  MlirValue x = arg(&f, type), y = arg(&f, type);
  x = wide(&f, nn_binary(&f.b, NN_OP_add, drops ? nn_binary(&f.b, NN_OP_mul, x, kept(&f, type)) : x, y));
  NnType domain = nn_value_type(x);
  MlirValue mean = nn_reduce(&f.b, NN_OP_moments, x, 1, I64S(1)),
            variance = mlirOperationGetResult(nn_value_def(mean), 1);
  MlirValue difference = nn_binary(&f.b, NN_OP_sub, x, along(&f, mean, domain, 0)),
            scale = along(&f, nn_unary(&f.b, NN_OP_rsqrt, variance), domain, 0);
  finish(&f, "row", type, 1, I64S(1), RESULTS(nn_cast(&f.b, nn_binary(&f.b, NN_OP_mul, difference, scale), t)));
  double n = (double)nn_type_elements(&type);
  *least = (Least){.arithmetic = n * (drops ? 68 : 5), .passes = 2, .elements = 3 * n};
  return call(&f);
}
static MlirOperation layernorm(MlirModule m, NnDtype t, Least *l) { return layernorm_of(m, t, false, l); }
static MlirOperation layernorm_dropout(MlirModule m, NnDtype t, Least *l) { return layernorm_of(m, t, true, l); }

// Loss and gradient of 50304 scores a row: log-sum-exp, the label's score by comparing indices, softmax less one.
static MlirOperation cross_entropy(MlirModule m, NnDtype t, Least *least) {
  enum { TOKENS = 2048, CLASSES = 50304 };
  Fn f = fn_begin(m);
  NnType type = SHAPE(t, TOKENS, CLASSES);
  MlirValue x = wide(&f, arg(&f, type)), label = arg(&f, SHAPE(NN_I32, TOKENS));
  NnType domain = nn_value_type(x), index = nn_type(NN_I32, 2, domain.dim);
  MlirValue is_label = nn_compare(&f.b, "eq", nn_iota(&f.b, index, 1), along(&f, label, index, 0));
  MlirValue most = along(&f, nn_reduce(&f.b, NN_OP_reduce_max, x, 1, I64S(1)), domain, 0);
  MlirValue below = nn_binary(&f.b, NN_OP_sub, x, most), e = nn_unary(&f.b, NN_OP_exp, below),
            zero = nn_constant(&f.b, domain, 0), one = nn_constant(&f.b, domain, 1);
  MlirValue sum = nn_reduce(&f.b, NN_OP_reduce_sum, e, 1, I64S(1)),
            score = nn_reduce(&f.b, NN_OP_reduce_sum, nn_select(&f.b, is_label, below, zero), 1, I64S(1));
  MlirValue loss = nn_binary(&f.b, NN_OP_sub, nn_unary(&f.b, NN_OP_log, sum), score);
  MlirValue p = nn_binary(&f.b, NN_OP_div, e, along(&f, sum, domain, 0));
  p = nn_binary(&f.b, NN_OP_sub, p, nn_select(&f.b, is_label, one, zero));
  finish(&f, "row", type, 1, I64S(1), RESULTS(loss, nn_cast(&f.b, p, t)));
  double n = (double)TOKENS * CLASSES;
  *least = (Least){.arithmetic = 24 * n, .passes = 2, .elements = 2 * n};
  return call(&f);
}

// ---------------------------------------------------------------------------------------------------------------------
// Products

static MlirOperation matmul_of(MlirModule m, NnOp op, NnDtype t, int64_t rows, int64_t columns, int64_t depth,
                               Least *least) {
  bool rows_op = op != NN_OP_matmul;
  NnType types[3] = {rows_op ? SHAPE(t, depth, rows) : SHAPE(t, rows, depth), SHAPE(t, depth, columns),
                     SHAPE(nn_dtype_wide(t), rows, columns)};
  double results = (double)(rows * columns);
  *least = (Least){.products = 2 * results * (double)depth, .elements = (double)((rows + columns) * depth) + results};
  return library(m, op, op == NN_OP_matmul_rows_to ? 3 : 2, types, 0, NULL, NULL);
}
static MlirOperation matmul(MlirModule m, NnDtype t, Least *l) {
  return matmul_of(m, NN_OP_matmul, t, 16384, 3072, 768, l);
}
static MlirOperation matmul_long(MlirModule m, NnDtype t, Least *l) {
  return matmul_of(m, NN_OP_matmul, t, 65536, 128, 128, l);
}
static MlirOperation matmul_rows(MlirModule m, NnDtype t, Least *l) {
  return matmul_of(m, NN_OP_matmul_rows, t, 768, 3072, 16384, l);
}
static MlirOperation matmul_rows_to(MlirModule m, NnDtype t, Least *l) {
  MlirOperation op = matmul_of(m, NN_OP_matmul_rows_to, t, 768, 3072, 16384, l);
  l->elements += 2 * 768 * 3072;
  return op;
}

// 64 images, square, the channels last.
typedef struct ConvSize {
  int64_t size, channels, outputs, window, stride, groups;
} ConvSize;

static int n_conv_attrs(const ConvSize *s, int64_t numbers[6], NnAttr attrs[4]) {
  for (int i = 0; i < 2; i++) numbers[i] = s->stride;
  for (int i = 2; i < 6; i++) numbers[i] = s->window / 2;
  attrs[0] = NN_I64S("strides", numbers, 2);
  attrs[1] = NN_I64S("padding", numbers + 2, 4);
  attrs[2] = NN_STR("layout", "nhwc");
  attrs[3] = NN_I64("groups", s->groups);
  return 4;
}

static MlirOperation conv_of(MlirModule m, NnOp op, NnDtype t, ConvSize s, Least *least) {
  int64_t numbers[6], out = (s.size + s.stride - 1) / s.stride;
  NnAttr attrs[4];
  int n = n_conv_attrs(&s, numbers, attrs);
  NnType x = SHAPE(t, 64, s.size, s.size, s.channels), y = SHAPE(t, 64, out, out, s.outputs),
         w = SHAPE(t, s.outputs, s.channels / s.groups, s.window, s.window);
  *least = (Least){.products = 2 * (double)nn_type_elements(&y) * (double)(s.channels / s.groups * s.window * s.window),
                   .maker = s.groups > 1 || s.channels < 16 ? LOOPS : TILES,
                   .zeros = op == NN_OP_conv2d_input_grad ? (double)(s.stride * s.stride) : 1,
                   .elements = (double)(nn_type_elements(&x) + nn_type_elements(&y) + nn_type_elements(&w))};
  if (op == NN_OP_conv2d) return library(m, op, 2, (NnType[]){x, w}, n, attrs, NULL);
  if (op == NN_OP_conv2d_input_grad) return library(m, op, 2, (NnType[]){y, w}, n, attrs, &x);
  return library(m, op, 2, (NnType[]){x, y}, n, attrs, &w);
}

#define CONVOLUTION(name, ...)                                                  \
  static MlirOperation name(MlirModule m, NnDtype t, Least *l) {                \
    return conv_of(m, NN_OP_conv2d, t, (ConvSize){__VA_ARGS__}, l);             \
  }                                                                             \
  static MlirOperation name##_input_grad(MlirModule m, NnDtype t, Least *l) {   \
    return conv_of(m, NN_OP_conv2d_input_grad, t, (ConvSize){__VA_ARGS__}, l);  \
  }                                                                             \
  static MlirOperation name##_weight_grad(MlirModule m, NnDtype t, Least *l) {  \
    return conv_of(m, NN_OP_conv2d_weight_grad, t, (ConvSize){__VA_ARGS__}, l); \
  }
CONVOLUTION(conv_3x3, 56, 64, 64, 3, 1, 1)
CONVOLUTION(conv_1x1, 28, 256, 512, 1, 1, 1)
CONVOLUTION(conv_strided, 56, 128, 128, 3, 2, 1)
CONVOLUTION(conv_stem, 224, 3, 64, 7, 2, 1)
CONVOLUTION(conv_grouped, 28, 256, 256, 3, 1, 32)
CONVOLUTION(conv_depthwise, 56, 192, 192, 3, 1, 192)

// A convolution, what activates it, and the sums of a batch normalisation.
static MlirOperation conv_joined_of(MlirModule m, NnDtype t, bool sums, Least *least) {
  ConvSize s = {28, 128, 128, 3, 1, 1};
  int64_t numbers[6];
  NnAttr attrs[4];
  int n = n_conv_attrs(&s, numbers, attrs);
  Fn f = fn_begin(m);
  MlirValue x[2] = {arg(&f, SHAPE(t, 64, 28, 28, 128)), arg(&f, SHAPE(t, 128, 128, 3, 3))};
  MlirValue y = build(&f, NN_OP_conv2d, 2, x, n, attrs, NULL, 0);
  NnType type = nn_value_type(y);
  MlirValue z = wide(&f, y);
  double results = (double)nn_type_elements(&type);
  if (sums) {
    MlirValue mean = nn_reduce(&f.b, NN_OP_moments, z, 3, I64S(0, 1, 2));
    finish(&f, "column", type, 3, I64S(0, 1, 2), RESULTS(y, mean, mlirOperationGetResult(nn_value_def(mean), 1)));
  } else {
    finish(&f, "map", type, 0, NULL, RESULTS(nn_unary(&f.b, NN_OP_relu, y)));
  }
  *least = (Least){.products = 2 * results * 128 * 9,
                   .maker = TILES,
                   .arithmetic = results,
                   .elements = 2 * results + 128 * 128 * 9,
                   .joined = f.func};
  return call(&f);
}
static MlirOperation conv_relu(MlirModule m, NnDtype t, Least *l) { return conv_joined_of(m, t, false, l); }
static MlirOperation conv_moments(MlirModule m, NnDtype t, Least *l) { return conv_joined_of(m, t, true, l); }

// Four volumes of 16 x 56 x 56, the channels last, and windows of 3 x 3 x 3.
static MlirOperation volume_of(MlirModule m, NnOp op, NnDtype t, Least *least) {
  enum { C = 64, O = 128, WINDOW = 27 };
  NnType x = SHAPE(t, 4, 16, 56, 56, C), y = SHAPE(t, 4, 16, 56, 56, O), w = SHAPE(t, O, C, 3, 3, 3);
  NnAttr attrs[] = {NN_I64S("strides", I64S(1, 1, 1), 3), NN_I64S("padding", I64S(1, 1, 1, 1, 1, 1), 6),
                    NN_STR("layout", "ndhwc")};
  double inputs = 4.0 * 16 * 56 * 56 * C, outputs = 4.0 * 16 * 56 * 56 * O;
  *least = (Least){.products = 2 * outputs * C * WINDOW,
                   .maker = LIBRARY,
                   .elements = inputs + outputs + (double)O * C * WINDOW,
                   .host_only = true};
  if (op == NN_OP_conv3d) return library(m, op, 2, (NnType[]){x, w}, 3, attrs, NULL);
  if (op == NN_OP_conv3d_input_grad) return library(m, op, 2, (NnType[]){y, w}, 3, attrs, &x);
  return library(m, op, 2, (NnType[]){x, y}, 3, attrs, &w);
}
static MlirOperation volume(MlirModule m, NnDtype t, Least *l) { return volume_of(m, NN_OP_conv3d, t, l); }
static MlirOperation volume_input_grad(MlirModule m, NnDtype t, Least *l) {
  return volume_of(m, NN_OP_conv3d_input_grad, t, l);
}
static MlirOperation volume_weight_grad(MlirModule m, NnDtype t, Least *l) {
  return volume_of(m, NN_OP_conv3d_weight_grad, t, l);
}

static MlirOperation attention_of(MlirModule m, NnOp op, NnDtype t, int64_t head_dim, double drops, Least *least) {
  enum { BATCH = 16, HEADS = 12, TOKENS = 1024 };
  NnType x = SHAPE(t, BATCH, TOKENS, HEADS, head_dim), statistics = SHAPE(nn_dtype_wide(t), BATCH, HEADS, TOKENS),
         key = SHAPE(NN_I32, 4), types[7] = {x, x, x, x, statistics, x, key};
  bool forward = op == NN_OP_attention;
  if (forward) types[3] = key;
  NnAttr attrs[] = {NN_F64A("scale", 0.125), NN_BOOL("causal", true), NN_STR("layout", "bthd"),
                    NN_F64A("dropout", drops)};
  double pairs = (double)BATCH * HEADS * TOKENS * (TOKENS + 1) / 2, n = (double)nn_type_elements(&x);
  *least = (Least){.products = pairs * (double)head_dim * (forward ? 4 : 10),
                   .maker = head_dim % 64 ? LOOPS : TILES,
                   .arithmetic = pairs * (10 + (drops > 0 ? 60 : 0)),
                   .elements = n * (forward ? 4 : 8)};
  return library(m, op, (forward ? 3 : 6) + (drops > 0), types, drops > 0 ? 4 : 3, attrs, NULL);
}
#define ATTENTION(name, op, head_dim, drops)                     \
  static MlirOperation name(MlirModule m, NnDtype t, Least *l) { \
    return attention_of(m, NN_OP_##op, t, head_dim, drops, l);   \
  }
ATTENTION(attention, attention, 64, 0)
ATTENTION(attention_wide, attention, 128, 0)
ATTENTION(attention_narrow, attention, 32, 0)
ATTENTION(attention_dropout, attention, 64, 0.1)
ATTENTION(attention_grad, attention_grad, 64, 0)
ATTENTION(attention_grad_dropout, attention_grad, 64, 0.1)
ATTENTION(attention_grad_packed, attention_grad_packed, 64, 0)

// ---------------------------------------------------------------------------------------------------------------------

#define CASE(function) \
  { #function, function }
#define CONVOLUTIONS(name) CASE(name), CASE(name##_input_grad), CASE(name##_weight_grad)
#define MAP(op, n) CASE(map_##op),
static const Case cases[] = {MAPS(MAP) CASE(logic),
                             CASE(dropout),
                             CASE(part),
                             CASE(transpose),
                             CASE(pad),
                             CASE(copy),
                             CASE(all_reduce),
                             CASE(reduce_scatter),
                             CASE(all_gather),
                             CASE(rank_part),
                             CASE(rank_receive),
                             CASE(rank_send),
                             CASE(concat),
                             CASE(gather),
                             CASE(gather_few),
                             CASE(gather_again),
                             CASE(scatter),
                             CASE(scatter_edges),
                             CASE(scatter_few),
                             CASE(scatter_to),
                             CASE(scatter_max),
                             CASE(argmax),
                             CASE(cumulative),
                             CASE(recurrence),
                             CASE(fourier),
                             CASE(argsort),
                             CASE(take_along),
                             CASE(scatter_along),
                             CASE(maxpool),
                             CASE(maxpool_grad),
                             CASE(avgpool),
                             CASE(avgpool_grad),
                             CASE(total),
                             CASE(columns),
                             CASE(moments),
                             CASE(softmax),
                             CASE(softmax_dropout),
                             CASE(softmax_long),
                             CASE(layernorm),
                             CASE(layernorm_dropout),
                             CASE(cross_entropy),
                             CASE(matmul),
                             CASE(matmul_long),
                             CASE(matmul_rows),
                             CASE(matmul_rows_to),
                             CONVOLUTIONS(conv_3x3),
                             CONVOLUTIONS(conv_1x1),
                             CONVOLUTIONS(conv_strided),
                             CONVOLUTIONS(conv_stem),
                             CONVOLUTIONS(conv_grouped),
                             CONVOLUTIONS(conv_depthwise),
                             CONVOLUTIONS(volume),
                             CASE(conv_relu),
                             CASE(conv_moments),
                             CASE(attention),
                             CASE(attention_wide),
                             CASE(attention_narrow),
                             CASE(attention_dropout),
                             CASE(attention_grad),
                             CASE(attention_grad_dropout),
                             CASE(attention_grad_packed)};
static const NnDtype types[] = {NN_F64, NN_F32, NN_BF16, NN_F16};   // none has more bytes than the one before
