// Kernels that begin with a convolution, or with what stands in front of one: what their tests share.
#define WIDE 1009
#include "test/codegen/cuda_cases.c"

// What follows the convolution.
enum {
  AFFINE = 1,       // relu((y - a) b + c), a, b and c by channel: a batch-norm in evaluation
  RESIDUAL = 2,     // plus another tensor
  SCALE = 4,        // times a scalar
  MASK = 8,         // where a tensor of i1 is true
  KEEP = 16,        // y is a result, too
  MOMENTS = 32,     // mean and variance by channel, with a running average: a batch-norm in training
  SUMS = 64,        // sums of the result and of its product with a tensor: the gradients of a batch-norm
  POSITIVE = 128,   // a result of i1
  LONG = 256,       // a gelu: many operations
  FED = 512,        // in front: the first operand is relu((x - a) b + c) s, a batch-norm's
  APART = 1024,     // the tensor of SUMS is another slice than that of RESIDUAL
};

typedef struct Case {
  NnDtype dtype;
  bool backward;
  int64_t n, c, h, w, o, k, stride, pad, groups;
  int what;
  int64_t more, first;   // the tensors of RESIDUAL and SUMS have so many channels more; the slice begins at `first`
} Case;

static MlirValue by_channel(Fn *f, NnType type) {
  NnType vector = SHAPE(NN_F32, type.dim[3]);
  return along(f, arg(f, vector), type, 3);
}

static MlirValue affine(Fn *f, MlirValue v) {
  NnType type = nn_value_type(v);
  v = nn_binary(&f->b, NN_OP_mul, nn_binary(&f->b, NN_OP_sub, v, by_channel(f, type)), by_channel(f, type));
  return nn_unary(&f->b, NN_OP_relu, nn_binary(&f->b, NN_OP_add, v, by_channel(f, type)));
}

static MlirValue normalised(Fn *f, MlirValue v) {
  return nn_binary(&f->b, NN_OP_mul, affine(f, v),
                   nn_broadcast(&f->b, arg(f, nn_scalar(NN_F32)), nn_value_type(v), NULL));
}

static MlirValue convolution(Fn *f, const Case *c) {
  int64_t pad[4] = {c->pad, c->pad, c->pad, c->pad}, strides[2] = {c->stride, c->stride},
          oh = (c->h + 2 * c->pad - c->k) / c->stride + 1, ow = (c->w + 2 * c->pad - c->k) / c->stride + 1;
  NnType x = SHAPE(c->dtype, c->n, c->h, c->w, c->c), w = SHAPE(c->dtype, c->o, c->c / c->groups, c->k, c->k),
         y = SHAPE(c->dtype, c->n, oh, ow, c->o);
  NnAttr attrs[] = {NN_I64S("strides", strides, 2), NN_I64S("padding", pad, 4), NN_I64("groups", c->groups),
                    NN_STR("layout", "nhwc")};
  MlirValue operands[] = {arg(f, c->backward ? y : x), arg(f, w)};
  if (c->what & FED) operands[0] = nn_cast(&f->b, normalised(f, nn_cast(&f->b, operands[0], NN_F32)), c->dtype);
  return build(f, c->backward ? NN_OP_conv2d_input_grad : NN_OP_conv2d, 2, operands, 4, attrs, c->backward ? &x : NULL,
               0);
}

static MlirValue gelu(Fn *f, MlirValue x) {
  MlirValue half = nn_constant_like(&f->b, x, 0.5), one = nn_constant_like(&f->b, x, 1),
            root = nn_constant_like(&f->b, x, 0.70710678);
  MlirValue e = nn_unary(&f->b, NN_OP_erf, nn_binary(&f->b, NN_OP_mul, x, root));
  return nn_binary(&f->b, NN_OP_mul, nn_binary(&f->b, NN_OP_mul, x, half), nn_binary(&f->b, NN_OP_add, e, one));
}

// A further operand; where it has more channels it is in the convolution's type.
static MlirValue tensor(Fn *f, const Case *c, NnType type, int64_t first) {
  if (!c->more) return arg(f, type);
  NnType whole = type;
  whole.dtype = c->dtype;
  whole.dim[3] += c->more;
  MlirValue part = nn_slice(&f->b, arg(f, whole), I64S(0, 0, 0, first), type.dim, NULL);
  return nn_cast(&f->b, part, type.dtype);
}

// In f32; the convolution's type may be narrower.
static MlirValue chain(Fn *f, const Case *c, MlirValue v) {
  NnBuilder *b = &f->b;
  NnType type = nn_value_type(v);
  if (c->what & AFFINE) v = affine(f, v);
  if (c->what & RESIDUAL) v = nn_binary(b, NN_OP_add, v, tensor(f, c, type, c->first));
  if (c->what & SCALE) v = nn_binary(b, NN_OP_mul, v, nn_broadcast(b, arg(f, nn_scalar(NN_F32)), type, NULL));
  if (c->what & MASK) v = nn_select(b, arg(f, nn_type(NN_I1, 4, type.dim)), v, nn_constant_like(b, v, 0));
  return c->what & LONG ? gelu(f, v) : v;
}

static void add_case(MlirModule m, const Case *c) {
  Fn f = fn_begin(m);
  NnBuilder *b = &f.b;
  MlirValue y = convolution(&f, c), results[8];
  NnType type = nn_value_type(y);
  int n = 0;
  MlirValue wide = nn_cast(b, y, NN_F32), v = chain(&f, c, wide);
  bool reduces = c->what & (MOMENTS | SUMS);
  if (!reduces || !mlirValueEqual(v, wide)) results[n++] = nn_cast(b, v, c->dtype);
  if (c->what & POSITIVE) results[n++] = nn_compare(b, "gt", v, nn_constant_like(b, v, 40));
  if (c->what & MOMENTS) {
    NnAttr axes = NN_I64S("axes", I64S(0, 1, 2), 3);
    MlirOperation moments = nn_build(b, NN_OP_moments, 1, &v, 1, &axes, NULL);
    MlirValue mean = mlirOperationGetResult(moments, 0), variance = mlirOperationGetResult(moments, 1),
              running = arg(&f, nn_value_type(mean));
    results[n++] = mean;
    results[n++] = nn_unary(b, NN_OP_rsqrt, nn_binary(b, NN_OP_add, variance, nn_constant_like(b, variance, 1e-5)));
    results[n++] = nn_binary(b, NN_OP_add, nn_binary(b, NN_OP_mul, running, nn_constant_like(b, running, 0.9)),
                             nn_binary(b, NN_OP_mul, mean, nn_constant_like(b, mean, 0.1)));
  }
  if (c->what & SUMS) {
    MlirValue other = tensor(&f, c, nn_value_type(v), c->what & APART ? 0 : c->first),
              products = nn_binary(b, NN_OP_mul, v, other);
    results[n++] = nn_reduce(b, NN_OP_reduce_sum, v, 3, I64S(0, 1, 2));
    results[n++] = nn_reduce(b, NN_OP_reduce_sum, products, 3, I64S(0, 1, 2));
  }
  if (c->what & KEEP) results[n++] = y;
  finish(&f, reduces ? "column" : "map", type, reduces ? 3 : 0, I64S(0, 1, 2), n, results);
}

#define CASE(type, back, ...) add_case(m, &(Case){.dtype = type, .backward = back, __VA_ARGS__})
