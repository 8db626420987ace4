// Matrix products: matmul, in the batched form and in the form with one matrix for all leading axes (a linear layer),
// and matmul_rows, the weight gradient of the latter.
#include "ir/ops/ops.h"

static bool matrices(NnOpCall *c) {
  return nn_need_float(c, 0) && nn_need_same_dtype(c, 0, 1) && nn_need_min_rank(c, 0, 2) && nn_need_min_rank(c, 1, 2);
}

static bool same_leading(const NnType *a, const NnType *b, int trailing) {
  if (a->rank != b->rank) return false;
  for (int i = 0; i < a->rank - trailing; i++)
    if (a->dim[i] != b->dim[i]) return false;
  return true;
}

bool nn_need_product_dtype(NnOpCall *c, const NnType *asked, NnDtype *dtype) {
  NnDtype given = c->operand[0].dtype, wide = nn_dtype_wide(given);
  *dtype = asked->rank >= 0 && asked->dtype == wide ? wide : given;
  return asked->rank < 0 || asked->dtype == *dtype ||
         nn_fail(c, "a product of %s is %s%s%s, found %s", nn_dtype_name(given), nn_dtype_name(given),
                 wide == given ? "" : " or ", wide == given ? "" : nn_dtype_name(wide), nn_text(asked).text);
}

// a[…, M, K] b[…, K, N], either transposed in its last two axes; or a[…, K] b[K, N].
bool nn_infer_matmul(NnOpCall *c, int n_results, NnType *result) {
  (void)n_results;
  NnDtype dtype;
  if (!matrices(c) || !nn_need_product_dtype(c, result, &dtype)) return false;
  const NnType *a = &c->operand[0], *b = &c->operand[1];
  bool ta = nn_call_bool(c, "transpose_a", false), tb = nn_call_bool(c, "transpose_b", false);
  if (b->rank != a->rank || !same_leading(a, b, 2)) {
    if (b->rank != 2)
      return nn_fail(c, "leading axes differ: lhs %s, rhs %s (they must be equal, or rhs a matrix)", nn_text(a).text,
                     nn_text(b).text);
    if (ta)
      return nn_fail(c, "transpose_a needs operands of equal rank: lhs %s, rhs %s", nn_text(a).text, nn_text(b).text);
  }
  int64_t inner_a = a->dim[a->rank - (ta ? 2 : 1)], inner_b = b->dim[b->rank - (tb ? 1 : 2)];
  if (inner_a != inner_b)
    return nn_fail(c, "inner dimensions differ: lhs %s has %lld, rhs %s has %lld", nn_text(a).text, (long long)inner_a,
                   nn_text(b).text, (long long)inner_b);
  *result = *a;
  result->dtype = dtype;
  result->dim[a->rank - 2] = a->dim[a->rank - (ta ? 1 : 2)];
  result->dim[a->rank - 1] = b->dim[b->rank - (tb ? 2 : 1)];
  return true;
}

static MlirValue matmul_rows(NnBuilder *b, MlirValue x, MlirValue y) { return nn_binary(b, NN_OP_matmul_rows, x, y); }

// The cotangent in the type of the operands, where the product was asked for in a wider one.
static MlirValue narrow_cotangent(NnVjp *v) {
  MlirValue g = v->cotangent[0];
  return nn_value_is_null(g) ? g : nn_cast(v->b, g, nn_value_dtype(v->operand[0]));
}

// C = A' B' with ' the optional transpositions. dA' = dC B'ᵀ and dB' = A'ᵀ dC; where A' = Aᵀ the product is written
// transposed, so that no transpose is built. With B one matrix for all rows, dB sums over the rows: matmul_rows.
void nn_vjp_matmul(NnVjp *v) {
  MlirValue g = narrow_cotangent(v), a = v->operand[0], b = v->operand[1];
  if (nn_value_is_null(g)) return;
  bool ta = nn_attr_bool(v->op, "transpose_a", false), tb = nn_attr_bool(v->op, "transpose_b", false);
  bool one_matrix = !ta && nn_value_type(b).rank == 2;
  if (v->needed[0]) v->operand_cotangent[0] = ta ? nn_matmul(v->b, b, g, tb, true) : nn_matmul(v->b, g, b, false, !tb);
  if (!v->needed[1]) return;
  if (one_matrix) v->operand_cotangent[1] = tb ? matmul_rows(v->b, g, a) : matmul_rows(v->b, a, g);
  else v->operand_cotangent[1] = tb ? nn_matmul(v->b, g, a, true, ta) : nn_matmul(v->b, a, g, !ta, false);
}

// a[…, M], b[…, N] to [M, N]
bool nn_infer_matmul_rows(NnOpCall *c, int n_results, NnType *result) {
  (void)n_results;
  NnDtype dtype;
  if (!matrices(c) || !nn_need_product_dtype(c, result, &dtype)) return false;
  const NnType *a = &c->operand[0], *b = &c->operand[1];
  if (!same_leading(a, b, 1))
    return nn_fail(c, "all axes but the last must be equal: lhs %s, rhs %s", nn_text(a).text, nn_text(b).text);
  *result = (NnType){.dtype = dtype, .rank = 2, .dim = {a->dim[a->rank - 1], b->dim[b->rank - 1]}};
  return true;
}

// R[m, n] = sum over rows of a[m] b[n]: da = b Rᵀ, db = a R, row by row.
void nn_vjp_matmul_rows(NnVjp *v) {
  MlirValue g = narrow_cotangent(v);
  if (nn_value_is_null(g)) return;
  if (v->needed[0]) v->operand_cotangent[0] = nn_matmul(v->b, v->operand[1], g, false, true);
  if (v->needed[1]) v->operand_cotangent[1] = nn_matmul(v->b, v->operand[0], g, false, false);
}

// a[…, M], b[…, N], table[M, N] to [M, N]
bool nn_infer_matmul_rows_to(NnOpCall *c, int n_results, NnType *result) {
  NnType product = {.rank = -1}, table = c->operand[2];
  if (nn_dtype_is_narrow(table.dtype)) return nn_fail(c, "adds up in f32 or f64, found %s", nn_text(&table).text);
  if (nn_dtype_is_narrow(c->operand[0].dtype)) product = (NnType){.dtype = nn_dtype_wide(c->operand[0].dtype)};
  if (!nn_infer_matmul_rows(c, n_results, &product)) return false;
  if (!nn_type_equal(&product, &table))
    return nn_fail(c, "%s cannot be added to %s", nn_text(&product).text, nn_text(&table).text);
  *result = table;
  return true;
}

void nn_vjp_matmul_rows_to(NnVjp *v) {
  nn_vjp_matmul_rows(v);
  v->operand_cotangent[2] = v->cotangent[0];
}

double nn_flops_matmul_rows_to(MlirOperation op) { return nn_flops_matmul_rows(op); }

double nn_flops_matmul(MlirOperation op) {
  NnType a = nn_operand_type(op, 0), y = nn_result_type(op, 0);
  int64_t inner = a.dim[a.rank - (nn_attr_bool(op, "transpose_a", false) ? 2 : 1)];
  return 2.0 * (double)nn_type_elements(&y) * (double)inner;
}

double nn_flops_matmul_rows(MlirOperation op) {
  NnType a = nn_operand_type(op, 0), y = nn_result_type(op, 0);
  int64_t rows = nn_type_elements(&a) / a.dim[a.rank - 1];
  return 2.0 * (double)nn_type_elements(&y) * (double)rows;
}
