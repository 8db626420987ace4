// Matrix products with the strides of the operands, so that transposed and interleaved operands are read in place:
// single ones by own loops (gemm.h), batches, what BLAS cannot say, and all on processors without AVX2 through oneDNN's
// matmul primitive.
#include "runtime/library_internal.h"

bool library_matmul_equal(const NncMatmul *a, const NncMatmul *b) {
  return a->dtype == b->dtype && a->result == b->result && a->batch == b->batch && a->m == b->m && a->n == b->n &&
         a->k == b->k && a->a_batch == b->a_batch && a->a_row == b->a_row && a->a_col == b->a_col &&
         a->b_batch == b->b_batch && a->b_row == b->b_row && a->b_col == b->b_col && a->c_batch == b->c_batch &&
         a->c_row == b->c_row && a->adds == b->adds && a->packs_once == b->packs_once;
}

static bool describe_matrix(OnednnLayout *out, int64_t batch, int64_t rows, int64_t cols, int64_t s_batch,
                            int64_t s_row, int64_t s_col, bool batched, dnnl_data_type_t type) {
  // A batch stride of 0 repeats one matrix: oneDNN calls that a batch of 1.
  if (s_batch == 0) batch = 1;
  dnnl_dims_t dims = {batch, rows, cols}, strides = {s_batch ? s_batch : rows * cols, s_row, s_col};
  int skip = batched ? 0 : 1;
  return onednn_layout_by_strides(out, batched ? 3 : 2, dims + skip, type, strides + skip);
}

static bool is_blas_matrix(int64_t rows, int64_t cols, int64_t row, int64_t col) {
  return col == 1 ? row >= cols : row == 1 && col >= rows;
}

static bool own_loops_fit(const NncMatmul *m) {
  Gemm gemm = library_gemm_of(m);
  return m->batch == 1 && is_blas_matrix(m->m, m->k, m->a_row, m->a_col) &&
         is_blas_matrix(m->k, m->n, m->b_row, m->b_col) && m->c_row >= m->n && gemm_fits(&gemm);
}

// The primitive's first choice, brg:avx512_core, copies its operands badly when rows lie a multiple of 4 KiB apart or A
// is transposed: it reaches half of the own loops' rate there, and nowhere much more. docs/performance.md has the
// figures. With a handful of rows it is ahead; gemm:jit, which there is without AVX-512, is not, and asks for memory
// each time that it runs.
bool library_product_fits(const NncMatmul *m) { return own_loops_fit(m) && (m->m >= 16 || m->b_col == 1); }

Gemm library_gemm_of(const NncMatmul *m) {
  return (Gemm){.type = m->dtype,
                .result = m->result,
                .m = m->m,
                .n = m->n,
                .k = m->k,
                .a_rows.pixel = m->a_row,
                .a_col = m->a_col,
                .b_rows.pixel = m->b_row,
                .b_col = m->b_col,
                .c_rows.pixel = m->c_row,
                .adds = m->adds,
                .keeps_b = m->packs_once};
}

bool library_adopt_product(Library *lib, NncOperation *op, const NncMatmul *m) {
  Gemm gemm = library_gemm_of(m);
  return library_adopt_packed(lib, op, &gemm);
}

// The dense copy of a matrix, whose runs are its rows or, where it lies transposed, its columns. False: neither are
// runs of neighbours.
static bool copy_matrix(LibraryCopy *c, int64_t batch, int64_t rows, int64_t cols, int64_t s_batch, int64_t *s_row,
                        int64_t *s_col) {
  bool transposed = *s_col != 1 && *s_row == 1;
  if (*s_col != 1 && !transposed && cols != 1) return false;
  *c = (LibraryCopy){.count = {batch, transposed ? cols : rows, transposed ? rows : cols},
                     .stride = {s_batch, transposed ? *s_col : *s_row}};
  *s_row = transposed ? 1 : cols;
  *s_col = transposed ? rows : 1;
  return true;
}

// A product that adds to C where no implementation does: into the workspace, and that is added.
static bool describe_added(Library *lib, NncOperation *op) {
  NncMatmul product = op->matmul;
  product.adds = product.packs_once = false;
  const NncOperation *inner = library_find(lib, NULL, &product, op->threads);
  if (!inner || product.batch > 1 || product.c_row != product.n) return false;
  op->kind = OPERATION_ADDED;
  op->inner = inner;
  op->implementation = inner->implementation;
  op->scratchpad_offset = library_align(product.m * product.n * (product.result == NNC_F64 ? 8 : 4));
  op->scratch_bytes = op->scratchpad_offset + inner->scratch_bytes;
  return true;
}

static bool describe_converted(Library *lib, NncOperation *op) {
  NncMatmul f = op->matmul;
  bool converts = f.result != NNC_F32;
  f.dtype = f.result = NNC_F32;
  f.packs_once = false;
  int64_t c_batch = f.batch > 1 && !f.c_batch ? f.m * f.n : f.c_batch, c_col = 1;
  if (!copy_matrix(&op->copy[0], f.a_batch ? f.batch : 1, f.m, f.k, f.a_batch, &f.a_row, &f.a_col) ||
      !copy_matrix(&op->copy[1], f.b_batch ? f.batch : 1, f.k, f.n, f.b_batch, &f.b_row, &f.b_col) ||
      (converts && !copy_matrix(&op->copy[2], f.batch, f.m, f.n, c_batch, &f.c_row, &c_col)))
    return false;
  f.a_batch = f.a_batch ? f.m * f.k : 0;
  f.b_batch = f.b_batch ? f.k * f.n : 0;
  if (converts) f.c_batch = f.m * f.n;
  const NncOperation *inner = library_find(lib, NULL, &f, op->threads);
  if (!inner) return false;
  library_place_copies(op);
  library_adopt_converted(op, inner);
  return true;
}

bool library_describe_matmul(Library *lib, NncOperation *op) {
  const NncMatmul *m = &op->matmul;
  if (m->batch < 1 || m->m < 1 || m->n < 1 || m->k < 1) return false;
  if (!library_result_fits(m->dtype, m->result)) return false;
  if (m->adds && (m->result != NNC_F32 || !library_product_fits(m))) return describe_added(lib, op);
  if (m->dtype == NNC_F64) return library_adopt_direct(lib, op);
  bool narrow = m->dtype == NNC_BF16 || m->dtype == NNC_F16;
  if (!narrow && m->dtype != NNC_F32) return false;
  if (m->dtype == NNC_F16 || (narrow && !library_has_bf16())) return describe_converted(lib, op);
  // oneDNN 2.6 keeps some sizes in 32 bits and divides by what is left of them.
  const int64_t sizes[] = {m->batch, m->m, m->n, m->k, m->a_row, m->a_col, m->b_row, m->b_col, m->c_row};
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
    if (sizes[i] > INT32_MAX)
      return m->adds ? describe_added(lib, op) : narrow ? describe_converted(lib, op) : library_adopt_direct(lib, op);
  static const int args[3] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST};
  for (int i = 0; i < 3; i++) op->operand[i].arg = args[i];
  bool batched = m->batch > 1;
  dnnl_data_type_t type = narrow ? dnnl_bf16 : dnnl_f32, result = m->result == NNC_BF16 ? dnnl_bf16 : dnnl_f32;
  bool ok = describe_matrix(&op->operand[0].given, m->batch, m->m, m->k, m->a_batch, m->a_row, m->a_col, batched,
                            type) &&
            describe_matrix(&op->operand[1].given, m->batch, m->k, m->n, m->b_batch, m->b_row, m->b_col, batched,
                            type) &&
            describe_matrix(&op->operand[2].given, m->batch, m->m, m->n,
                            batched && !m->c_batch ? m->m * m->n : m->c_batch, m->c_row, 1, batched, result);
  if (ok && library_product_fits(m)) return library_adopt_product(lib, op, m);
  dnnl_primitive_desc_t found = ok ? onednn_matmul(lib->engine, lib->attr, op->operand[0].given, op->operand[1].given,
                                                   op->operand[2].given)
                                   : NULL;
  if (found) {
    const char *name = "ref";
    dnnl_primitive_desc_query(found, dnnl_query_impl_info_str, 0, &name);
    bool own = !strncmp(name, "gemm:", 5) && own_loops_fit(m);
    if (!own && !library_is_slow(name, m->dtype) && library_adopt(lib, op, found)) return true;
    dnnl_primitive_desc_destroy(found);
    if (own) return library_adopt_product(lib, op, m);
  }
  if (narrow) return describe_converted(lib, op);
  if (m->adds) return describe_added(lib, op);
  return library_adopt_direct(lib, op);
}
