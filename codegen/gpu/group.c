// Which launches of small kernels are made one. The updates of an optimizer are a kernel for each shape of a parameter
// and a launch for each parameter: hundreds of launches of the same arithmetic. A group takes the calls of kernels that
// differ in their shapes alone.
//
// It is found on the finished plan, so that it costs no memory: a call may wait until a step needs the bytes that it
// reads, or touches those that it writes. The buffers of a gradient are given away early where memory is short, and the
// groups are small there. Where other lanes run beside them (docs/internals.md, Lanes) they end at every wait.
#include "codegen/gpu/schedule.h"

#include <stdlib.h>
#include <string.h>

#include "codegen/offsets.h"
#include "passes/plan/plan.h"
#include "support/alloc.h"
#include "support/integers.h"
#include "support/text.h"

// ---------------------------------------------------------------------------------------------------------------------
// Signatures

typedef struct Flat {
  bool ok;
  int group;
  Text *text;
} Flat;

// One run of elements through all operands, each of which is read along it or is one element.
static void check_leaf(void *user, int arg, MlirValue value, const Access *a) {
  Flat *f = user;
  int64_t stride = a->stride[f->group];
  if (stride != 0 && stride != 1) f->ok = false;
  // an index, a random number
  if (arg < 0 && !mlirValueIsABlockArgument(value) && nn_value_def(value).ptr &&
      nn_op_info(nn_op_of(nn_value_def(value)))->kind == NN_KIND_SOURCE)
    f->ok = false;
  text_add(f->text, "%d:%lld+%lld ", arg, (long long)stride, (long long)a->offset);
}

static void append_string(MlirStringRef s, void *text) { text_append(text, s.data, s.length); }

// An operand without the views in between: what they read stands among the leaves.
static void add_operand(Text *t, const PtrMap *numbers, MlirValue v) {
  while (!mlirValueIsABlockArgument(v) && nn_op_info(nn_op_of(nn_value_def(v)))->kind == NN_KIND_VIEW)
    v = mlirOperationGetOperand(nn_value_def(v), 0);
  if (mlirValueIsABlockArgument(v)) text_add(t, " a%d", nn_value_index(v));
  else text_add(t, " v%d", ptr_map_get(numbers, v.ptr));
}

static void add_ops(Text *t, const Kernel *k) {
  PtrMap numbers = {0};
  int n = 0;
  MlirBlock body = nn_function_body(k->func);
  NN_FOREACH_OP (op, body) {
    NnOp kind = nn_op_of(op);
    if (kind == NN_OP_NONE || nn_op_info(kind)->kind == NN_KIND_VIEW) continue;
    MlirValue v = mlirOperationGetResult(op, 0);
    NnType type = nn_value_type(v);
    ptr_map_set(&numbers, v.ptr, n++);
    text_add(t, "%s/%d", nn_op_info(kind)->name, (int)type.dtype);
    for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++)
      add_operand(t, &numbers, mlirOperationGetOperand(op, i));
    bool reduces = nn_op_info(kind)->kind == NN_KIND_REDUCE;   // over all axes, how many there are
    for (intptr_t i = 0; i < mlirOperationGetNumAttributes(op) && !reduces; i++) {
      MlirNamedAttribute a = mlirOperationGetAttribute(op, i);
      MlirStringRef name = mlirIdentifierStr(a.name);
      text_add(t, " %.*s=", (int)name.length, name.data);
      mlirAttributePrint(a.attribute, append_string, t);
    }
    text_add(t, "\n");
  }
  for (int i = 0; i < k->n_results; i++) add_operand(t, &numbers, k->result[i]);
  ptr_map_free(&numbers);
}

// What kernels that may share a function have in common. NULL: the kernel is of no such kind. Owned.
static char *signature_of(MlirOperation func, GroupBodyKind *kind) {
  Kernel k;
  kernel_read(func, &k);
  Nest nest;
  Text t = {0};
  bool total = k.kind != KERNEL_MAP;
  Flat flat = {.ok = mlirOperationIsNull(k.library) && (!total || schedule_is_total(&k)), .text = &t};
  if (flat.ok) nest_build(&k, &nest);
  flat.ok = flat.ok && nest.n == 1 && nn_type_elements(&k.domain) <= INT32_MAX;
  if (flat.ok) {
    flat.group = nest.axis[0];
    for (int i = 0; i < k.n_args; i++) text_add(&t, "%d ", (int)k.arg[i].dtype);
    for (int i = 0; i < k.n_results && !total; i++)
      flat.ok = flat.ok && nn_type_elements(&k.result_type[i]) == nn_type_elements(&k.domain);
    kernel_walk_all_leaves(&k, check_leaf, &flat);
    add_ops(&t, &k);
    *kind = !total ? GROUP_MAP : schedule_reduce_workspace(&k) ? GROUP_LARGE_TOTAL : GROUP_TOTAL;
    text_add(&t, " %d", (int)*kind);
  }
  kernel_free(&k);
  if (flat.ok) return t.data;
  text_free(&t);
  return NULL;
}

// ---------------------------------------------------------------------------------------------------------------------
// Bytes that steps read and write

typedef struct Bytes {
  int64_t from, to;
  bool written;
} Bytes;
typedef struct BytesList {
  int n;
  Bytes *items;
} BytesList;   // Owned

static void add_bytes(BytesList *l, int64_t from, int64_t bytes, bool written) {
  *ARRAY_ADD(l->items, l->n) = (Bytes){from, from + bytes, written};
}

static void add_value(BytesList *l, const Offsets *o, MlirValue v, bool written) {
  NnType type = nn_value_type(v);
  add_bytes(l, offsets_of(o, v), nn_type_bytes(&type), written);
}

static void bytes_of_step(BytesList *l, const Offsets *o, MlirOperation op) {
  l->n = 0;
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++) add_value(l, o, mlirOperationGetOperand(op, i), false);
  for (intptr_t i = 0; i < mlirOperationGetNumResults(op); i++) add_value(l, o, mlirOperationGetResult(op, i), true);
  int64_t workspace = nn_attr_i64(op, ATTR_workspace, -1);
  if (workspace >= 0) add_bytes(l, workspace, nn_attr_i64(op, ATTR_workspace_bytes, 0), true);
}

static bool conflict(const BytesList *a, const BytesList *b) {
  for (int i = 0; i < a->n; i++)
    for (int j = 0; j < b->n; j++)
      if ((a->items[i].written || b->items[j].written) && a->items[i].from < b->items[j].to &&
          b->items[j].from < a->items[i].to)
        return true;
  return false;
}

// ---------------------------------------------------------------------------------------------------------------------
// Groups

typedef struct Waiting {   // calls of one body that may still wait
  int n;
  MlirOperation *calls;   // Owned
  BytesList bytes;        // of all of them
  int64_t parts;          // of large totals
} Waiting;

typedef struct Finder {
  KernelGroups *out;
  const Offsets *offsets;   // Borrowed, of the current function
  PtrMap body_of;           // kernel function -> body + 1, 0: none
  PtrMap calls, grouped;    // kernel function -> how many calls it has, and how many are in groups
  int n_waiting;
  Waiting *waiting;   // Owned; by body
} Finder;

static int find_body(Finder *f, MlirOperation func) {
  GroupBodyKind kind = GROUP_MAP;
  char *signature = signature_of(func, &kind);
  if (!signature) return -1;
  KernelGroups *g = f->out;
  for (int i = 0; i < g->n_bodies; i++)
    if (!strcmp(g->bodies[i].signature, signature)) {
      free(signature);
      return i;
    }
  int body = g->n_bodies;
  *ARRAY_ADD(g->bodies, g->n_bodies) =
      (GroupBody){.name = text_format("group_%d", body), .kernel = func, .signature = signature, .kind = kind};
  *ARRAY_ADD(f->waiting, f->n_waiting) = (Waiting){0};
  return body;
}

static int body_of(Finder *f, MlirOperation call) {
  MlirOperation func = nn_callee(call);
  if (!nn_has_attr(func, ATTR_kernel) || nn_has_attr(func, ATTR_body)) return -1;
  int known = ptr_map_get(&f->body_of, func.ptr);
  if (known < 0) {
    known = find_body(f, func) + 1;
    ptr_map_set(&f->body_of, func.ptr, known);
  }
  return known - 1;
}

static void count(PtrMap *map, const void *key) {
  int n = ptr_map_get(map, key);
  ptr_map_set(map, key, n < 0 ? 1 : n + 1);
}

static int n_buffers(MlirOperation call) {
  return (int)(mlirOperationGetNumOperands(call) + mlirOperationGetNumResults(call));
}
static MlirValue buffer_value(MlirOperation call, int i) {
  intptr_t operands = mlirOperationGetNumOperands(call);
  return i < operands ? mlirOperationGetOperand(call, i) : mlirOperationGetResult(call, i - operands);
}

static int64_t domain_elements(MlirOperation call) {
  int64_t dim[NN_MAX_RANK];
  NnType domain = nn_type(NN_F32, nn_attr_i64s(nn_callee(call), ATTR_domain, dim, NN_MAX_RANK), dim);
  return nn_type_elements(&domain);
}

// The calls of a body that wait become a group, if they are more than one, or sums.
static void end_waiting(Finder *f, int body) {
  Waiting *w = &f->waiting[body];
  if (w->n > (f->out->bodies[body].kind == GROUP_MAP)) {
    KernelGroups *out = f->out;
    int number = out->n;
    KernelGroup *g = ARRAY_ADD(out->items, out->n);
    int n_values = out->bodies[body].n_buffers = n_buffers(w->calls[0]);
    *g = (KernelGroup){.n = w->n, .body = body, .calls = w->calls};
    g->offsets = allocate_array((size_t)(w->n * n_values), sizeof *g->offsets);
    g->elements = allocate_array((size_t)w->n, sizeof *g->elements);
    for (int c = 0; c < w->n; c++) {
      g->elements[c] = domain_elements(w->calls[c]);
      for (int i = 0; i < n_values; i++)
        g->offsets[c * n_values + i] = offsets_of(f->offsets, buffer_value(w->calls[c], i));
      ptr_map_set(&out->of_call, w->calls[c].ptr, number);
      count(&f->grouped, nn_callee(w->calls[c]).ptr);
    }
    g->workspace = nn_attr_i64(w->calls[w->n - 1], ATTR_workspace, 0);
    out->bodies[body].n_rows += w->n;
    w->calls = NULL;
  }
  free(w->calls);
  w->calls = NULL;
  w->n = w->bytes.n = 0;
  w->parts = 0;
}

// What is read or written in vectors begins at a multiple of 16 bytes.
static bool can_wait(const Finder *f, MlirOperation call) {
  int64_t elements = domain_elements(call);
  for (int i = 0; i < n_buffers(call); i++) {
    NnType type = nn_value_type(buffer_value(call, i));
    if (nn_type_elements(&type) == elements && offsets_of(f->offsets, buffer_value(call, i)) % 16) return false;
  }
  return true;
}

int64_t gpu_total_part(int64_t elements) {
  enum { LEAST = 16 << 10, MOST_PARTS = 264 };
  int64_t part = LEAST;
  while (part * MOST_PARTS < elements) part *= 2;
  return part;
}

static void add_waiting(Finder *f, int body, MlirOperation call, const BytesList *bytes) {
  Waiting *w = &f->waiting[body];
  int64_t elements = domain_elements(call), part = gpu_total_part(elements), parts = divide_up(elements, part);
  bool large = f->out->bodies[body].kind == GROUP_LARGE_TOTAL;
  if (large && w->parts + parts > GROUP_TOTAL_PARTS) end_waiting(f, body);
  w->parts += parts;
  *ARRAY_ADD(w->calls, w->n) = call;
  // The workspace, the last of them, is that of the group's last call when the group runs.
  for (int i = 0; i < bytes->n - large; i++)
    add_bytes(&w->bytes, bytes->items[i].from, bytes->items[i].to - bytes->items[i].from, bytes->items[i].written);
}

static void find_in_function(Finder *f, MlirOperation func) {
  NnStepList steps = nn_flatten(func);
  Offsets offsets = {0};
  BytesList bytes = {0};
  offsets_build(&offsets, func, &steps);
  f->offsets = &offsets;
  for (int i = 0; i < steps.n; i++) {
    NnScan scan;
    MlirOperation op = steps.items[i].op;
    if (steps.items[i].role != NN_STEP_RUN && steps.items[i].role != NN_STEP_TAP) continue;
    bytes_of_step(&bytes, &offsets, op);
    // Waits say what is over where they stand: nothing is moved across.
    bool other_lane = nn_has_attr(op, ATTR_lane), meets = other_lane || nn_has_attr(op, ATTR_waits);
    for (int b = 0; b < f->out->n_bodies; b++)
      if (meets || conflict(&f->waiting[b].bytes, &bytes)) end_waiting(f, b);
    if (other_lane || !nn_is(op, "func.call") || nn_scan_of(op, &scan)) continue;
    int body = body_of(f, op);
    if (body >= 0 && can_wait(f, op)) add_waiting(f, body, op, &bytes);
  }
  for (int b = 0; b < f->out->n_bodies; b++) end_waiting(f, b);
  free(bytes.items);
  offsets_free(&offsets);
  nn_steps_free(&steps);
}

static MlirWalkResult count_call(MlirOperation op, void *user) {
  Finder *f = user;
  if (nn_is(op, "func.call")) count(&f->calls, nn_callee(op).ptr);
  return MlirWalkResultAdvance;
}

static bool is_update(MlirOperation call) {
  char phase[16];
  return !strcmp(nn_attr_str(call, ATTR_phase, phase, sizeof phase, ""), "update");
}

static bool gives_scalar(MlirOperation call) {
  return mlirOperationGetNumResults(call) == 1 && nn_value_type(mlirOperationGetResult(call, 0)).rank == 0;
}

static int count_alike(MlirOperation call, bool total) {
  int n = 0;
  NN_FOREACH_OP (op, mlirOperationGetBlock(call))
    n += mlirOperationGetNumOperands(op) == mlirOperationGetNumOperands(call) &&
         mlirOperationGetNumResults(op) == mlirOperationGetNumResults(call) && nn_is(op, "func.call") &&
         (total ? gives_scalar(op) : is_update(op));
  return n > 1 ? n : 1;
}

double gpu_group_share(MlirOperation call, MlirOperation kernel) {
  GroupBodyKind kind = GROUP_MAP;
  char *signature = is_update(call) || gives_scalar(call) ? signature_of(kernel, &kind) : NULL;
  bool total = kind != GROUP_MAP;
  double share = signature && (total || is_update(call)) ? 1.0 / count_alike(call, total) : 1;
  free(signature);
  if (kind != GROUP_LARGE_TOTAL) return share;
  NnType x = nn_value_type(mlirOperationGetOperand(call, 0));
  int64_t elements = nn_type_elements(&x);
  double full = (double)elements / (double)gpu_total_part(elements) / GROUP_TOTAL_PARTS;
  return share > full ? share : full;
}

KernelGroups *gpu_groups_build(MlirModule module) {
  KernelGroups *out = allocate_array(1, sizeof *out);
  Finder f = {.out = out};
  NnFunctions functions = nn_public_functions(module);
  mlirOperationWalk(mlirModuleGetOperation(module), count_call, &f, MlirWalkPreOrder);
  for (int i = 0; i < functions.n; i++) find_in_function(&f, functions.items[i]);
  for (int i = 0; i < out->n; i++)
    for (int c = 0; c < out->items[i].n; c++) {
      MlirOperation func = nn_callee(out->items[i].calls[c]);
      if (ptr_map_get(&f.calls, func.ptr) == ptr_map_get(&f.grouped, func.ptr))
        ptr_map_set(&out->only_grouped, func.ptr, 1);
    }
  for (int b = 0; b < out->n_bodies; b++) free(f.waiting[b].bytes.items);
  free(f.waiting);
  ptr_map_free(&f.body_of);
  ptr_map_free(&f.calls);
  ptr_map_free(&f.grouped);
  return out;
}
