// What goes along an axis as kernels: which shape of kernel, names, launches and workspace. The kernels themselves:
// template_rows.c.
#include "codegen/cuda/cuda.h"
#include "codegen/cuda/template/template.h"
#include "codegen/gpu/schedule.h"
#include "support/alloc.h"
#include "support/integers.h"
#include "support/text.h"

static const char *const kinds[] = {"sum", "product", "argmax", "argmin", "recurrence", "argsort", "take", "scatter"};

static char *name_of(const CudaTarget *target, MlirOperation op, const OpRecord *record) {
  (void)target, (void)op;
  const NncRows *r = &record->rows;
  return text_format("rows_%s_%s_%s_%lldx%lldx%lld_%lld%s%s%s", kinds[r->kind], nn_dtype_name((NnDtype)r->dtype),
                     nn_dtype_name((NnDtype)r->index), (long long)r->outer, (long long)r->length, (long long)r->inner,
                     (long long)r->count, r->backward ? "_backward" : "", r->unique ? "_unique" : "",
                     r->last ? "_last" : "");
}

static int64_t workspace(const CudaTarget *target, MlirOperation op, const OpRecord *r) {
  (void)target, (void)op;
  return round_up(rows_template_workspace(&r->rows), NNC_ALIGN);
}

// A sort reads and writes its words once for each step of its network.
static void price(const CudaTarget *target, MlirOperation op, const OpRecord *r, CostWork *w) {
  (void)target, (void)op;
  if (r->kind != NNC_STEP_ROWS || r->rows.kind != NNC_ROWS_ARGSORT) return;
  double steps = 1;
  for (int64_t n = 2; n < r->rows.length; n *= 2) steps++;
  w->products *= steps;
}

static void emit_kernel(const CudaTarget *target, MlirOperation op, const OpRecord *r, const char *name,
                        EmittedKernel *out) {
  *out = (EmittedKernel){.name = copy_string(name),
                         .summary = copy_string(kinds[r->rows.kind]),
                         .workspace_bytes = workspace(target, op, r)};
  TemplateLaunch l;
  rows_template_launch(&r->rows, &l);
  text_add(&out->comment, "// %s: %lld rows of %lld, %s\n", name, (long long)(r->rows.outer * r->rows.inner),
           (long long)r->rows.length, rows_template_schedule(&r->rows));
  gpu_add_launch(out, name, l.grid[0], l.grid[1], l.grid[2], l.threads);
  out->launches[0].shared_bytes = l.shared_bytes;
  gpu_comment_launches(out, &out->comment);
  CudaTemplate *template = out->template = allocate_array(1, sizeof *template);
  *template = (CudaTemplate){.kind = TEMPLATE_ROWS, .rows = r->rows};
}

const CudaLibrary cuda_library_rows = {name_of, workspace, emit_kernel, price};
