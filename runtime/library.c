// The host's library of convolutions and matrix products: oneDNN's set-up, the cache of operations and their execution.
// See library.h; library_conv.c and library_matmul.c choose implementations, direct.c has the loops for what oneDNN
// lacks.
#include "runtime/library_internal.h"
#include "runtime/runtime.h"
#include "support/bytes.h"
#include "support/integers.h"

#include <omp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---------------------------------------------------------------------------------------------------------------------
// Set-up

// f32 code in oneDNN does not use what lies above avx512_core, so that machines above it plan and run alike. For bf16
// what avx512_core_bf16 and AMX add is used; below them oneDNN's bf16 is a slow emulation, and products are done in f32
// instead.
static const struct {
  const char *name;
  dnnl_cpu_isa_t isa;
} isa_names[] = {
    {"avx512_core_amx", dnnl_cpu_isa_avx512_core_amx},
    {"avx512_core_bf16", dnnl_cpu_isa_avx512_core_bf16},
    {"avx512_core", dnnl_cpu_isa_avx512_core},
    {"avx2", dnnl_cpu_isa_avx2},
    {"avx", dnnl_cpu_isa_avx},
    {"sse41", dnnl_cpu_isa_sse41},
};

static Library questions, questions_of_one;   // of nnc_library_threads() threads; of one

// oneDNN accepts one limit for the process, before anything else: whoever comes first sets it.
static pthread_mutex_t isa_lock = PTHREAD_MUTEX_INITIALIZER;
static bool isa_is_limited;

static void limit_isa(dnnl_cpu_isa_t isa) {
  pthread_mutex_lock(&isa_lock);
  if (!isa_is_limited) dnnl_set_max_cpu_isa(isa);
  isa_is_limited = true;
  pthread_mutex_unlock(&isa_lock);
}

bool nnc_library_set_isa(const char *isa) {
  for (size_t i = 0; i < sizeof isa_names / sizeof *isa_names; i++)
    if (strcmp(isa, isa_names[i].name) == 0) limit_isa(isa_names[i].isa);
  return strcmp(isa, "native") == 0 || strcmp(isa, nnc_library_isa()) == 0;
}

const char *nnc_library_isa(void) {
#if defined(__x86_64__)
  limit_isa(isa_names[0].isa);
  unsigned effective = (unsigned)dnnl_get_effective_cpu_isa();
  for (size_t i = 0; i < sizeof isa_names / sizeof *isa_names; i++)
    if ((effective & (unsigned)isa_names[i].isa) == (unsigned)isa_names[i].isa) return isa_names[i].name;
#endif
  return "native";
}

int library_threads(const Library *lib) { return lib->threads ? lib->threads : omp_get_max_threads(); }

void nnc_library_set_threads(int n) { questions.threads = n < 1 ? 0 : n; }
int nnc_library_threads(void) { return library_threads(&questions); }

bool nnc_library_has_amx(void) { return strcmp(nnc_library_isa(), "avx512_core_amx") == 0; }
bool library_has_bf16(void) { return nnc_library_has_amx() || strcmp(nnc_library_isa(), "avx512_core_bf16") == 0; }

static void check(dnnl_status_t status, const char *what) {
  if (status != dnnl_success) report_internal("oneDNN cannot %s (status %d)", what, (int)status);
}

// What an operation needs to be described.
static void start(Library *lib) {
  if (lib->engine) return;
  limit_isa(isa_names[0].isa);
  check(dnnl_engine_create(&lib->engine, dnnl_cpu, 0), "create an engine");
  check(dnnl_stream_create(&lib->stream, lib->engine, dnnl_stream_default_flags), "create a stream");
  check(dnnl_primitive_attr_create(&lib->attr), "create attributes");
  check(dnnl_primitive_attr_set_scratchpad_mode(lib->attr, dnnl_scratchpad_mode_user), "use the caller's scratchpad");
}

Library *library_of_questions(void) {
  start(&questions);
  return &questions;
}

Library *nnc_library_open(int threads) {
  Library *lib = xcalloc(1, sizeof *lib);
  lib->threads = threads < 1 ? 0 : threads;
  return lib;
}

static void drop_reorders(NncOperation *op) {
  for (int i = 0; i < 3; i++) {
    if (op->operand[i].reorder_desc) dnnl_primitive_desc_destroy(op->operand[i].reorder_desc);
    op->operand[i].reorder_desc = NULL;
    op->operand[i].reordered = false;
  }
}

static void free_operation(NncOperation *op) {
  for (int i = 0; i < 3; i++) {
    LibraryOperand *o = &op->operand[i];
    if (o->reorder) dnnl_primitive_destroy(o->reorder);
    if (o->memory_given) dnnl_memory_destroy(o->memory_given);
    if (o->memory_used) dnnl_memory_destroy(o->memory_used);
    onednn_layout_drop(&o->given);
    onednn_layout_drop(&o->used);
  }
  if (op->primitive) dnnl_primitive_destroy(op->primitive);
  if (op->scratchpad) dnnl_memory_destroy(op->scratchpad);
  drop_reorders(op);
  if (op->desc) dnnl_primitive_desc_destroy(op->desc);
  free(op);
}

static void free_operations(NncOperation *list) {
  while (list) {
    NncOperation *next = list->next;
    free_operation(list);
    list = next;
  }
}

void nnc_library_close(Library *lib) {
  if (!lib) return;
  free_operations(lib->operations);
  free_operations(lib->loops);
  if (lib->attr) dnnl_primitive_attr_destroy(lib->attr);
  if (lib->stream) dnnl_stream_destroy(lib->stream);
  if (lib->engine) dnnl_engine_destroy(lib->engine);
  free(lib);
}

// ---------------------------------------------------------------------------------------------------------------------
// Operations: description and cache

static int64_t desc_scratchpad(const_dnnl_primitive_desc_t desc) {
  OnednnLayoutOfDesc m = dnnl_primitive_desc_query_md(desc, dnnl_query_scratchpad_md, 0);
  return m ? (int64_t)dnnl_memory_desc_get_size(m) : 0;
}

// Reorders run before or after the operation, never during it, so that all share one scratchpad.
static bool lay_out_workspace(Library *lib, NncOperation *op, int64_t scratchpad_bytes) {
  int64_t offset = 0;
  for (int i = 0; i < 3; i++) {
    LibraryOperand *o = &op->operand[i];
    o->reordered = o->given && !dnnl_memory_desc_equal(o->given, o->used);
    if (!o->reordered) continue;
    OnednnLayout from = o->is_output ? o->used : o->given, to = o->is_output ? o->given : o->used;
    if (dnnl_reorder_primitive_desc_create(&o->reorder_desc, from, lib->engine, to, lib->engine, lib->attr) !=
        dnnl_success) {
      o->reorder_desc = NULL;
      drop_reorders(op);
      return false;
    }
    int64_t own = desc_scratchpad(o->reorder_desc);
    if (own > scratchpad_bytes) scratchpad_bytes = own;
    o->offset = offset;
    offset += library_align((int64_t)dnnl_memory_desc_get_size(o->used));
  }
  op->scratchpad_offset = offset;
  op->scratchpad_bytes = scratchpad_bytes;
  op->scratch_bytes = offset + library_align(scratchpad_bytes);
  return true;
}

bool library_adopt(Library *lib, NncOperation *op, dnnl_primitive_desc_t desc) {
  for (int i = 0; i < 3; i++)
    onednn_layout_copy(&op->operand[i].used,
                       dnnl_primitive_desc_query_md(desc, dnnl_query_exec_arg_md, op->operand[i].arg));
  if (!lay_out_workspace(lib, op, desc_scratchpad(desc))) return false;
  op->kind = OPERATION_ONEDNN;
  op->desc = desc;
  const char *name = "oneDNN";
  dnnl_primitive_desc_query(desc, dnnl_query_impl_info_str, 0, &name);
  op->implementation = name;
  return true;
}

static void take_as_given(NncOperation *op) {
  for (int i = 0; i < 3; i++)
    if (op->operand[i].given) onednn_layout_copy(&op->operand[i].used, op->operand[i].given);
}

bool library_adopt_direct(Library *lib, NncOperation *op) {
  take_as_given(op);
  op->kind = OPERATION_DIRECT;
  op->implementation = "direct";
  return lay_out_workspace(lib, op, 0);
}

// Which buffer is which matrix.
static void adopt_product(NncOperation *op) {
  bool swapped = op->is_conv && op->conv.pass == NNC_CONV_WEIGHT_GRAD;   // dw = dy' x, buffers x, dy, dw
  for (int i = 0; i < 3; i++) op->gemm_buffer[i] = swapped && i < 2 ? 1 - i : i;
  take_as_given(op);
}

bool library_adopt_packed(Library *lib, NncOperation *op, const Gemm *gemm) {
  adopt_product(op);
  if (!lay_out_workspace(lib, op, gemm_scratch(gemm, op->threads))) return false;
  op->kind = OPERATION_PRODUCT;
  op->gemm = *gemm;
  op->implementation = gemm_name(gemm);
  return true;
}

bool library_adopt_winograd(Library *lib, NncOperation *op) {
  op->kind = OPERATION_WINOGRAD;
  op->implementation = "winograd";
  take_as_given(op);
  return lay_out_workspace(lib, op, winograd_scratch(&op->conv, op->threads));
}

bool library_adopt_packed_conv(Library *lib, NncOperation *op) {
  const NncConv *c = &op->conv;
  take_as_given(op);
  LibraryOperand *weights = &op->operand[c->pass == NNC_CONV_WEIGHT_GRAD ? 2 : 1];
  dnnl_dims_t strides;
  dnnl_data_type_t type = library_weights_type(c) == NNC_BF16 ? dnnl_bf16 : dnnl_f32;
  packed_conv_weight_strides(c, strides);
  if (!onednn_layout_by_strides(&weights->used, 4, (dnnl_dims_t){c->o, c->c, c->kh, c->kw}, type, strides) ||
      !lay_out_workspace(lib, op, packed_conv_scratch(&op->conv, op->threads)))
    return false;
  op->kind = OPERATION_PACKED_CONV;
  op->implementation = gemm_packed_name(c->dtype);
  return true;
}

// Primitives take their number of threads from OpenMP's setting at the time they are described.
NncOperation *library_find(Library *lib, const NncConv *c, const NncMatmul *m, int threads) {
  start(lib);
  for (NncOperation *op = lib->operations; op; op = op->next)
    if (op->threads == threads && op->is_conv == (c != NULL) &&
        (c ? library_conv_equal(&op->conv, c) : library_matmul_equal(&op->matmul, m)))
      return op;
  NncOperation *op = xcalloc(1, sizeof *op);
  op->library = lib;
  op->is_conv = c != NULL;
  op->threads = threads;
  if (c) op->conv = *c;
  else op->matmul = *m;
  int before = omp_get_max_threads();
  omp_set_num_threads(threads);
  bool ok = c ? library_describe_conv(lib, op) : library_describe_matmul(lib, op);
  omp_set_num_threads(before);
  if (!ok) {
    free_operation(op);
    return NULL;
  }
  op->next = lib->operations;
  lib->operations = op;
  return op;
}

// A product of bf16 or f16 done in f32: the same product of dense f32 copies, which stand in the workspace before its
// own. An f32 result needs none.
int64_t library_place_copies(NncOperation *op) {
  int64_t offset = 0;
  for (int i = 0; i < 3; i++) {
    LibraryCopy *c = &op->copy[i];
    c->offset = offset;
    offset += library_align(c->count[0] * c->count[1] * c->count[2] * (int64_t)sizeof(float));
  }
  return op->scratchpad_offset = offset;
}

void library_adopt_converted(NncOperation *op, const NncOperation *inner) {
  op->kind = OPERATION_CONVERTED;
  op->inner = inner;
  op->implementation = inner->implementation;
  op->scratch_bytes = op->scratchpad_offset + inner->scratch_bytes;
}

static const NncOperation *ask(const NncConv *c, const NncMatmul *m) {
  return library_find(&questions, c, m, library_threads(&questions));
}

// Also of one thread with the room that there is then, which may need more: see find_fitting.
static int64_t most_scratch(const NncConv *c, const NncMatmul *m) {
  const NncOperation *op = ask(c, m);
  if (!op) return -1;
  NncConv planned = c ? *c : (NncConv){0};
  planned.scratch_bytes = op->scratch_bytes;
  const NncOperation *one = library_find(&questions_of_one, c ? &planned : NULL, m, 1);
  return one && one->scratch_bytes > op->scratch_bytes ? one->scratch_bytes : op->scratch_bytes;
}

int64_t nnc_conv_scratch(const NncConv *c) { return most_scratch(c, NULL); }
int64_t nnc_matmul_scratch(const NncMatmul *m) { return most_scratch(NULL, m); }

const char *nnc_conv_implementation(const NncConv *c) {
  const NncOperation *op = ask(c, NULL);
  return op ? op->implementation : "invalid";
}

const char *nnc_matmul_implementation(const NncMatmul *m) {
  const NncOperation *op = ask(NULL, m);
  return op ? op->implementation : "invalid";
}

bool nnc_matmul_packs_once(const NncMatmul *m) {
  // With more rows packing is little of a product (docs/performance.md); the copy of a larger B takes memory and stays
  // in no cache.
  enum { MOST_ROWS = 128, MOST_BYTES = 4 << 20 };
  const NncOperation *op = ask(NULL, m);
  return op && op->kind == OPERATION_PRODUCT && m->m <= MOST_ROWS && 4 * m->k * m->n <= MOST_BYTES &&
         gemm_keeps_b(&op->gemm);
}

// ---------------------------------------------------------------------------------------------------------------------
// Execution

static void make_primitives(const Library *lib, NncOperation *op) {
  static char none[NNC_ALIGN];   // a memory object needs some address to be made with
  if (op->desc) {
    check(dnnl_primitive_create(&op->primitive, op->desc), "create a primitive");
    OnednnLayout pad = NULL;
    if (!onednn_layout_by_tag(&pad, 1, (dnnl_dims_t){op->scratchpad_bytes}, dnnl_u8, dnnl_a))
      report_internal("oneDNN cannot describe a scratchpad");
    check(dnnl_memory_create(&op->scratchpad, pad, lib->engine, none), "create a memory");
    onednn_layout_drop(&pad);
  }
  for (int i = 0; i < 3; i++) {
    LibraryOperand *o = &op->operand[i];
    if (!op->desc && !o->reordered) continue;
    check(dnnl_memory_create(&o->memory_given, o->given, lib->engine, DNNL_MEMORY_NONE), "create a memory");
    if (!o->reordered) continue;
    check(dnnl_memory_create(&o->memory_used, o->used, lib->engine, DNNL_MEMORY_NONE), "create a memory");
    check(dnnl_primitive_create(&o->reorder, o->reorder_desc), "create a reorder");
  }
  op->is_prepared = true;
}

static bool fits(const char *implementation, int threads, int64_t needed, int64_t planned, char *error, size_t size) {
  if (needed <= planned) return true;
  snprintf(error, size, "%s on %s with %d threads needs %lld bytes of workspace, the plan has %lld", implementation,
           nnc_library_isa(), threads, (long long)needed, (long long)planned);
  return false;
}

static const NncOperation *prepare(NncOperation *op, int64_t planned, char *error, size_t size) {
  if (!op) {
    snprintf(error, size, "the descriptor is inconsistent");
    return NULL;
  }
  if (!fits(op->implementation, op->threads, op->scratch_bytes, planned, error, size)) return NULL;
  for (NncOperation *o = op; o; o = (NncOperation *)o->inner) {
    if (o->is_prepared) continue;
    int before = omp_get_max_threads();
    omp_set_num_threads(o->threads);
    make_primitives(o->library, o);
    omp_set_num_threads(before);
  }
  return op;
}

// For the threads there are, or for one, whose workspace was planned: on fewer than were planned for oneDNN's
// implementations may need more. One, since teams of other sizes would be made and ended in each step.
static NncOperation *find_fitting(Library *lib, const NncConv *c, const NncMatmul *m, int64_t planned) {
  NncOperation *op = library_find(lib, c, m, library_threads(lib));
  if (!op || op->scratch_bytes <= planned || library_threads(lib) == 1) return op;
  NncOperation *one = library_find(lib, c, m, 1);
  return one && one->scratch_bytes <= planned ? one : op;
}

const NncOperation *nnc_conv_prepare(Library *lib, const NncConv *c, char *error, size_t size) {
  return prepare(find_fitting(lib, c, NULL, c->scratch_bytes), c->scratch_bytes, error, size);
}

const NncOperation *nnc_matmul_prepare(Library *lib, const NncMatmul *m, char *error, size_t size) {
  return prepare(find_fitting(lib, NULL, m, m->scratch_bytes), m->scratch_bytes, error, size);
}

const NncOperation *library_prepare_loops(Library *lib, LibraryLoops loops, const void *record, int64_t needed,
                                          int64_t planned, char *error, size_t size) {
  if (!fits("own loops", library_threads(lib), needed, planned, error, size)) return NULL;
  for (const NncOperation *op = lib->loops; op; op = op->next)
    if (op->record == record) return op;
  NncOperation *op = xcalloc(1, sizeof *op);
  *op = (NncOperation){.kind = OPERATION_LOOPS, .loops = loops, .record = record, .library = lib, .next = lib->loops};
  return lib->loops = op;
}

static bool run_reorder(const NncOperation *op, const LibraryOperand *o) {
  dnnl_exec_arg_t args[] = {
      {DNNL_ARG_FROM, o->is_output ? o->memory_used : o->memory_given},
      {DNNL_ARG_TO, o->is_output ? o->memory_given : o->memory_used},
      {DNNL_ARG_SCRATCHPAD, op->scratchpad},
  };
  return dnnl_primitive_execute(o->reorder, op->library->stream, op->scratchpad ? 3 : 2, args) == dnnl_success;
}

// Runs of neighbours, one after another: count[2] elements, of which count[0] x count[1] lie where the strides say.
static void convert_copy(const LibraryCopy *c, NncDtype dtype, void *buffer, char *workspace, bool out) {
  float *copy = (float *)(void *)(workspace + c->offset);
  const int64_t piece = 4096, run = c->count[2], pieces = divide_up(run, piece),
                total = c->count[0] * c->count[1] * pieces;
#pragma omp parallel for schedule(static)
  for (int64_t p = 0; p < total; p++) {
    int64_t row = p / pieces, first = p % pieces * piece, n = run - first < piece ? run - first : piece;
    uint16_t *narrow = (uint16_t *)buffer + row / c->count[1] * c->stride[0] + row % c->count[1] * c->stride[1] + first;
    if (out) narrow_from_float(copy + row * run + first, dtype, narrow, n);
    else narrow_to_float(dtype, narrow, copy + row * run + first, n);
  }
}

static bool execute_converted(const NncOperation *op, void *const buffers[3], char *workspace) {
  NncDtype dtype = op->is_conv ? op->conv.dtype : op->matmul.dtype;
  void *copies[3];
  for (int i = 0; i < 3; i++) copies[i] = op->copy[i].count[0] ? workspace + op->copy[i].offset : buffers[i];
  for (int i = 0; i < 2; i++) convert_copy(&op->copy[i], dtype, buffers[i], workspace, false);
  if (!nnc_operation_execute(op->inner, copies, workspace + op->scratchpad_offset, false)) return false;
  convert_copy(&op->copy[2], dtype, buffers[2], workspace, true);
  return true;
}

static bool execute_added(const NncOperation *op, void *const buffers[3], char *workspace) {
  const int64_t n = op->matmul.m * op->matmul.n;
  if (!nnc_operation_execute(op->inner, (void *[]){buffers[0], buffers[1], workspace},
                             workspace + op->scratchpad_offset, false))
    return false;
  if (op->matmul.result == NNC_F64) {
    double *c = buffers[2], *product = (double *)(void *)workspace;
#pragma omp parallel for simd schedule(static)
    for (int64_t i = 0; i < n; i++) c[i] += product[i];
  } else {
    float *c = buffers[2], *product = (float *)(void *)workspace;
#pragma omp parallel for simd schedule(static)
    for (int64_t i = 0; i < n; i++) c[i] += product[i];
  }
  return true;
}

static bool execute_on_layouts(const NncOperation *op, void *const buffers[3], char *workspace, bool again) {
  dnnl_exec_arg_t args[4];
  void *address[3];
  char *scratchpad = workspace + op->scratchpad_offset;
  bool ok = true;
  for (int i = 0; i < 3; i++) {
    const LibraryOperand *o = &op->operand[i];
    address[i] = o->reordered ? workspace + o->offset : buffers[i];
    if (o->memory_given) ok &= dnnl_memory_set_data_handle(o->memory_given, buffers[i]) == dnnl_success;
    if (o->reordered) ok &= dnnl_memory_set_data_handle(o->memory_used, address[i]) == dnnl_success;
    args[i] = (dnnl_exec_arg_t){o->arg, o->reordered ? o->memory_used : o->memory_given};
  }
  if (op->scratchpad && op->scratchpad_bytes)
    ok &= dnnl_memory_set_data_handle(op->scratchpad, scratchpad) == dnnl_success;
  for (int i = 0; i < 3 && ok; i++)
    if (op->operand[i].reordered && !op->operand[i].is_output) ok = run_reorder(op, &op->operand[i]);
  if (!ok) return false;
  switch (op->kind) {
  case OPERATION_DIRECT:
    if (op->is_conv) direct_conv(&op->conv, address);
    else direct_matmul(&op->matmul, address);
    break;
  case OPERATION_WINOGRAD: winograd_execute(&op->conv, op->threads, address, scratchpad); break;
  case OPERATION_PACKED_CONV: packed_conv_execute(&op->conv, op->threads, address, scratchpad); break;
  case OPERATION_PRODUCT:
    gemm_execute(&op->gemm, op->threads, address[op->gemm_buffer[0]], address[op->gemm_buffer[1]],
                 address[op->gemm_buffer[2]], scratchpad, again);
    break;
  default:
    args[3] = (dnnl_exec_arg_t){DNNL_ARG_SCRATCHPAD, op->scratchpad};
    if (dnnl_primitive_execute(op->primitive, op->library->stream, 4, args) != dnnl_success) return false;
  }
  for (int i = 0; i < 3 && ok; i++)
    if (op->operand[i].reordered && op->operand[i].is_output) ok = run_reorder(op, &op->operand[i]);
  return ok && dnnl_stream_wait(op->library->stream) == dnnl_success;
}

static bool execute(const NncOperation *op, void *const *buffers, void *workspace, bool again) {
  switch (op->kind) {
  case OPERATION_LOOPS: op->loops(op->record, buffers, workspace); return true;
  case OPERATION_ADDED: return execute_added(op, buffers, workspace);
  case OPERATION_CONVERTED: return execute_converted(op, buffers, workspace);
  default: return execute_on_layouts(op, buffers, workspace, again);
  }
}

bool nnc_operation_execute(const NncOperation *op, void *const *buffers, void *workspace, bool again) {
  int threads = omp_get_max_threads();
  bool fewer = op->threads > 0 && op->threads < threads;   // than its workspace is for
  if (fewer) omp_set_num_threads(op->threads);
  bool ok = execute(op, buffers, workspace, again);
  if (fewer) omp_set_num_threads(threads);
  return ok;
}

// A bucket that is larger than a piece goes piece by piece through the same buffer. The parts of the ranks differ by
// one element.
int64_t nnc_collective_scratch(const NncCollective *c, int64_t piece) {
  int64_t size = dtype_bytes(c->dtype), most = piece / size;
  if (c->kind == NNC_REDUCE_SCATTER)   // what goes out, and what comes in
    return library_align(2 * c->ranks * nnc_scattered_piece(c->elements, size, c->ranks, piece) * size);
  if (c->kind != NNC_ALL_REDUCE) return 0;
  return library_align(((c->elements < most ? c->elements : most) + MAX_RANKS) * size);
}
