// Matrix products through oneDNN's matmul with the strides of the operands, so that transposed and interleaved operands are read in place.
#include "runtime/library_internal.h"

static bool describe_matrix(dnnl_memory_desc_t *out, int64_t batch, int64_t rows, int64_t cols, int64_t s_batch, int64_t s_row,
                            int64_t s_col, bool batched) {
  // A batch stride of 0 repeats one matrix: oneDNN calls that a batch of 1.
  if (s_batch == 0) batch = 1;
  dnnl_dims_t dims = {batch, rows, cols}, strides = {s_batch ? s_batch : rows * cols, s_row, s_col};
  int skip = batched ? 0 : 1;
  return dnnl_memory_desc_init_by_strides(out, batched ? 3 : 2, dims + skip, dnnl_f32, strides + skip) == dnnl_success;
}

bool library_describe_matmul(Library *lib, NncOperation *op) {
  const NncMatmul *m = &op->matmul;
  if (m->batch < 1 || m->m < 1 || m->n < 1 || m->k < 1) return false;
  if (m->dtype != NNC_F32) return m->dtype == NNC_F64 && library_adopt_direct(lib, op);
  static const int args[3] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST};
  for (int i = 0; i < 3; i++) op->operand[i].arg = args[i];
  op->operand[2].is_output = true;
  bool batched = m->batch > 1;
  bool ok = describe_matrix(&op->operand[0].given, m->batch, m->m, m->k, m->a_batch, m->a_row, m->a_col, batched) &&
            describe_matrix(&op->operand[1].given, m->batch, m->k, m->n, m->b_batch, m->b_row, m->b_col, batched) &&
            describe_matrix(&op->operand[2].given, m->batch, m->m, m->n, batched && !m->c_batch ? m->m * m->n : m->c_batch, m->c_row, 1,
                            batched);
  dnnl_matmul_desc_t desc;
  dnnl_primitive_desc_t found = NULL;
  ok = ok && dnnl_matmul_desc_init(&desc, &op->operand[0].given, &op->operand[1].given, NULL, &op->operand[2].given) == dnnl_success &&
       dnnl_primitive_desc_create(&found, &desc, lib->attr, lib->engine, NULL) == dnnl_success;
  if (ok) {
    const char *name = "ref";
    dnnl_primitive_desc_query(found, dnnl_query_impl_info_str, 0, &name);
    if (!library_is_reference(name) && library_adopt(lib, op, found)) return true;
    dnnl_primitive_desc_destroy(found);
  }
  for (int i = 0; i < 3; i++) op->operand[i].used = op->operand[i].given;
  return library_adopt_direct(lib, op);
}
