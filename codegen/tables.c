// program.c: the tables of runtime/program.h as C initialisers, from the planned module. Buffer offsets of all steps
// lie in one array, equal records are one, and what every step has is not named, so that the text stays small and the C
// compiler is quick with it.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/cost_key.h"
#include "codegen/offsets.h"
#include "codegen/output.h"
#include "codegen/tables.h"
#include "passes/plan/plan.h"
#include "support/alloc.h"
#include "support/integers.h"
#include "support/text.h"

int64_t tables_offset(const Tables *w, MlirValue v) { return offsets_of(w->offsets, v); }

// ---------------------------------------------------------------------------------------------------------------------
// Tensors

static void add_numbers(Text *t, int n, const int64_t *x) {
  text_add(t, "{");
  for (int i = 0; i < n; i++) text_add(t, "%s%lld", i ? "," : "", (long long)x[i]);
  text_add(t, "}");
}

static const char *role_name(const char *role) {
  static const char *const names[][2] = {{"input", "NNC_INPUT"},   {"param", "NNC_PARAM"}, {"state", "NNC_STATE"},
                                         {"opt", "NNC_OPT"},       {"accum", "NNC_ACCUM"}, {"rng", "NNC_RNG"},
                                         {"hyper", "NNC_HYPER"},   {"loss", "NNC_LOSS"},   {"metric", "NNC_METRIC"},
                                         {"output", "NNC_OUTPUT"}, {"cache", "NNC_CACHE"}};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (!strcmp(names[i][0], role)) return names[i][1];
  require_promise(false, "a role that the runtime does not know");
  return "NNC_INPUT";
}

static char *string_of(MlirAttribute a) {
  if (mlirAttributeIsNull(a) || !mlirAttributeIsAString(a)) return copy_string("");
  MlirStringRef s = mlirStringAttrGetValue(a);
  return text_format("%.*s", (int)s.length, s.data);
}

static void add_tensor(Text *t, const char *name, const char *role, const NnType *type, int64_t offset, int64_t group,
                       const char *extra) {
  text_add(t, "  {");
  text_quoted(t, name);
  text_add(t, ",%s,%d,%d,", role, (int)type->dtype, type->rank);
  add_numbers(t, type->rank ? type->rank : 1, type->rank ? type->dim : (const int64_t[]){0});
  text_add(t, ",%lld,%lld,%lld%s},\n", (long long)nn_type_bytes(type), (long long)offset, (long long)group, extra);
}

// Of a rank's part: its elements; *type becomes that of the tensor. 0: the argument is whole.
static int64_t whole_type(MlirOperation func, int arg, NnType *type) {
  MlirAttribute shape = nn_arg_attr(func, arg, ATTR_shape);
  if (mlirAttributeIsNull(shape)) return 0;
  int64_t part = nn_type_elements(type);
  type->rank = (int)mlirDenseArrayGetNumElements(shape);
  for (int i = 0; i < type->rank; i++) type->dim[i] = mlirDenseI64ArrayGetElement(shape, i);
  return part;
}

static void add_argument(Text *t, MlirOperation func, int arg) {
  char *name = string_of(nn_arg_attr(func, arg, ATTR_name)), *role = string_of(nn_arg_attr(func, arg, ATTR_role)),
       *init = string_of(nn_arg_attr(func, arg, ATTR_init));
  NnType type = nn_value_type(mlirBlockGetArgument(nn_function_body(func), arg));
  int64_t part = whole_type(func, arg, &type);
  Text extra = {0};
  if (*init) {
    text_add(&extra, ",");
    text_quoted(&extra, init);
  }
  char *average = string_of(nn_arg_attr(func, arg, ATTR_average));
  if (*average) {
    text_add(&extra, ",.average_of=");
    text_quoted(&extra, average);
  }
  free(average);
  int64_t limit = nn_arg_i64(func, arg, ATTR_limit, 0);
  if (limit) text_add(&extra, ",.limit=%lld", (long long)limit);
  int64_t besides = nn_arg_i64(func, arg, ATTR_besides, 0);
  if (besides) text_add(&extra, ",.besides=%lld", (long long)besides);
  MlirAttribute whole = nn_arg_attr(func, arg, ATTR_whole);
  if (!mlirAttributeIsNull(whole)) text_add(&extra, ",.whole=true");
  if (!mlirAttributeIsNull(nn_arg_attr(func, arg, ATTR_carried))) text_add(&extra, ",.carried=true");
  if (!mlirAttributeIsNull(nn_arg_attr(func, arg, ATTR_csr))) text_add(&extra, ",.csr=true");
  int64_t channels = nn_arg_i64(func, arg, ATTR_channels, 0);
  if (channels) {
    char *mean = string_of(nn_arg_attr(func, arg, ATTR_mean)), *deviation = string_of(nn_arg_attr(func, arg, ATTR_std));
    text_add(&extra, ",.n_channels=%lld,.mean=(const double[]){%s},.deviation=(const double[]){%s}",
             (long long)channels, mean, deviation);
    free(mean);
    free(deviation);
  }
  if (part) text_add(&extra, ",.part=%lld", (long long)part);
  add_tensor(t, name, role_name(role), &type, nn_arg_i64(func, arg, ATTR_offset, 0),
             nn_arg_i64(func, arg, ATTR_group, -1), text_c_string(&extra));
  text_free(&extra);
  free(name);
  free(role);
  free(init);
}

static bool is_persistent(MlirOperation func, int arg) {
  char role[16];
  return nn_is_persistent_role(nn_arg_str(func, arg, ATTR_role, role, sizeof role, ""));
}

// Persistent tensors of all functions, each name once: equal attributes are one.
static int add_persistent(Text *t, int n_functions, const MlirOperation *functions) {
  int n = 0;
  PtrMap seen = {0};
  text_add(t, "static const NncTensor persistent[] = {\n");
  for (int f = 0; f < n_functions; f++)
    for (int a = 0; a < nn_function_n_args(functions[f]); a++) {
      if (!is_persistent(functions[f], a)) continue;
      const void *name = nn_arg_attr(functions[f], a, ATTR_name).ptr;
      require_promise(name != NULL, "a persistent tensor without a name");
      if (ptr_map_get(&seen, name) >= 0) continue;
      ptr_map_set(&seen, name, n++);
      add_argument(t, functions[f], a);
    }
  text_add(t, "  {0}};\n");
  ptr_map_free(&seen);
  return n;
}

// ---------------------------------------------------------------------------------------------------------------------
// Steps

static void add_number(Text *numbers, int64_t number) { text_append(numbers, (const char *)&number, sizeof number); }

static int add_buffer(Tables *w, int64_t offset, int64_t bytes, int64_t values) {
  const ScanPlace *place = w->place;
  for (int level = 0; level < w->depth; level++) {
    int64_t stride = 0;
    if (place) offset = scan_place(place, offset, &stride), place = place->around;
    add_number(&w->strides, stride);
  }
  add_number(&w->buffers, offset);
  add_number(&w->buffer_bytes, bytes);
  add_number(&w->buffer_values, values);
  return w->n_buffers++;
}

// One more buffer, a value's.
static void tables_add_value(Tables *w, MlirValue v, bool written) {
  NnType type = nn_value_type(v);
  add_buffer(w, offsets_of(w->offsets, v), nn_type_bytes(&type), (int64_t)type.dtype | (written ? NNC_WRITTEN : 0));
}

int tables_add_values(Tables *w, MlirOperation op, int but) {
  int first = w->n_buffers;
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++)
    if (i != but) tables_add_value(w, mlirOperationGetOperand(op, i), false);
  for (intptr_t i = 0; i < mlirOperationGetNumResults(op); i++)
    tables_add_value(w, mlirOperationGetResult(op, i), true);
  return first;
}

void tables_end_step(Tables *w, int first) {
  tables_add_lane(w);
  text_add(&w->steps, "},\n");
  w->n_steps++;
  if (w->place) text_add(&w->stride_rows, "D+%d,", first * w->depth);
}

// "model.nn:12:5, model.nn:13:9": the places of an op, without repeats and not too many.
void tables_places(MlirLocation loc, Text *out) {
  enum { MAX_BYTES = 200 };
  if (mlirLocationIsACallSite(loc)) {
    tables_places(mlirLocationCallSiteGetCallee(loc), out);
  } else if (mlirLocationIsAName(loc)) {
    tables_places(mlirLocationNameGetChildLoc(loc), out);
  } else if (mlirLocationIsAFused(loc)) {
    unsigned n = mlirLocationFusedGetNumLocations(loc);
    MlirLocation *parts = allocate_array(n + 1, sizeof *parts);
    mlirLocationFusedGetLocations(loc, parts);
    for (unsigned i = 0; i < n; i++) tables_places(parts[i], out);
    free(parts);
  } else if (mlirLocationIsAFileLineColRange(loc)) {
    MlirStringRef file = mlirIdentifierStr(mlirLocationFileLineColRangeGetFilename(loc));
    char *place = text_format("%.*s:%d:%d", (int)file.length, file.data, mlirLocationFileLineColRangeGetStartLine(loc),
                              mlirLocationFileLineColRangeGetStartColumn(loc));
    if (out->size < MAX_BYTES && (!out->size || !strstr(text_c_string(out), place)))
      text_add(out, "%s%s", out->size ? ", " : "", place);
    free(place);
  }
}

// The number i of its places P<i>; -1: none.
static int place_id(Tables *w, MlirOperation op) {
  if (mlirOperationIsNull(op)) return -1;
  MlirLocation loc = mlirOperationGetLocation(op);
  int id = ptr_map_get(&w->place_ids, loc.ptr);
  if (id >= 0) return id;
  Text places = {0};
  tables_places(loc, &places);
  if (places.size) {
    const void *unique = mlirStringAttrGet(mlirOperationGetContext(op), nn_string_ref(text_c_string(&places))).ptr;
    id = ptr_map_get(&w->place_ids, unique);
    if (id < 0) {
      id = w->n_places++;
      ptr_map_set(&w->place_ids, unique, id);
      text_add(&w->records, "static const char P%d[] = ", id);
      text_quoted(&w->records, text_c_string(&places));
      text_add(&w->records, ";\n");
    }
    ptr_map_set(&w->place_ids, loc.ptr, id);
  }
  text_free(&places);
  return id;
}

void tables_begin_step(Tables *w, const StepHead *h) {
  int place = place_id(w, h->op);
  if (!w->place) w->flops += h->flops;
  char from[3 * 24] = "0,0,0", at[16] = "0";
  if (place >= 0) snprintf(at, sizeof at, "P%d", place);
  if (h->n_buffers) snprintf(from, sizeof from, "B+%d,Z+%d,V+%d", h->first, h->first, h->first);
  text_add(&w->steps, "  {%s,%s,%s,%d,%s,%lld,%.6g,%.6g,%.6g,%d,%s,", h->kind, h->label, at, h->n_buffers, from,
           (long long)h->workspace, h->flops, h->bytes, h->seconds, h->recomputed, h->cost_key ? h->cost_key : "0");
}

int64_t tables_workspace(const Tables *w, MlirOperation op) {
  int64_t offset = nn_attr_i64(op, ATTR_workspace, -1), stride;
  for (const ScanPlace *place = w->place; place && offset >= 0; place = place->around)
    offset = scan_place(place, offset, &stride);
  return offset;
}

// The number of what a kernel computes, one of equal kernels; 0: it is a single operation, or not told.
static int expression_id(Tables *w, MlirOperation func) {
  int id = ptr_map_get(&w->expression_ids, func.ptr);
  if (id >= 0) return id;
  Text text = {0};
  id = 0;
  if (tables_expression(func, &text)) {
    const void *unique = mlirStringAttrGet(mlirOperationGetContext(func), nn_string_ref(text_c_string(&text))).ptr;
    id = ptr_map_get(&w->expression_ids, unique);
    if (id < 0) {
      id = ++w->n_expressions;
      text_add(&w->expressions, "  ");
      text_quoted(&w->expressions, text_c_string(&text));
      text_add(&w->expressions, ",\n");
      ptr_map_set(&w->expression_ids, unique, id);
    }
  }
  text_free(&text);
  ptr_map_set(&w->expression_ids, func.ptr, id);
  return id;
}

// Of a call whose buffers are those from `first` on, in a step with those from `from` on.
static void add_expression(int id, int first, int from, const char *field, Text *out) {
  if (id) text_add(out, "%s{%d,%d}", field, id, first - from);
}

// What every call of the kernel has in common, written and computed at the first: its key as K<kernel>, what it
// computes, FLOPs, predicted seconds. kernel: the function that is called, null: of a library op.
static const KernelCost *kernel_cost(Tables *w, int number, MlirOperation call, MlirOperation kernel) {
  KernelCost *cost = &w->costs[number];
  if (cost->known) return cost;
  char *key = cost_key(call, kernel);
  *cost = (KernelCost){.known = true,
                       .expression = mlirOperationIsNull(kernel) ? 0 : expression_id(w, kernel),
                       .flops = nn_op_flops(mlirOperationIsNull(kernel) ? call : kernel),
                       .seconds = target_kernel_seconds(w->target, call, kernel)};
  text_add(&w->keys, "static const char K%d[] = ", number);
  text_quoted(&w->keys, key);
  text_add(&w->keys, ";\n");
  free(key);
  return cost;
}

// hidden: of the step's buffers, those that its kernel finds in a table of its own.
static int launch_id(Tables *w, const KernelLaunch *l, int hidden) {
  int known = ptr_map_get(&w->launch_ids, l);
  if (known >= 0) return known;
  Text *t = &w->launches;
  text_add(t, "  {\"%s\",", l->symbol);
  add_numbers(t, 3, l->grid);
  text_add(t, ",");
  add_numbers(t, 3, l->block);
  text_add(t, ",%lld,%d", (long long)l->shared_bytes, hidden);
  if (l->n_numbers) text_add(t, ",%d,(const int32_t[]){", l->n_numbers);
  for (int i = 0; i < l->n_numbers; i++) text_add(t, "%s%d", i ? "," : "", (int)l->numbers[i]);
  text_add(t, l->n_numbers ? "}},\n" : "},\n");
  ptr_map_set(&w->launch_ids, l, w->n_launches);
  return w->n_launches++;
}

static void add_launch(Tables *w, const KernelLaunch *l, int hidden) {
  if (l->grid[0]) text_add(&w->steps, ".launch=G+%d", launch_id(w, l, hidden));
  else text_add(&w->steps, "%s,%lld,%lld", l->symbol, (long long)l->extent, (long long)l->grain);
}

void tables_add_collective_launch(Tables *w, MlirOperation op) {
  char *name = w->target->collective_kernel(w->target, op);
  const EmittedKernel *k = name ? emitted_kernel_find(w->kernels, name) : NULL;
  require_promise(!name || k, "a collective without its kernel");
  if (k) text_add(&w->steps, ",.launch=G+%d", launch_id(w, &k->launches[0], 0));
  free(name);
}

// Some of the buffers from `first` on, once more.
static int repeat_buffers(Tables *w, const NnStep *s, const EmittedKernel *k, int64_t workspace, int n,
                          const int *which) {
  int first = w->n_buffers;
  intptr_t operands = mlirOperationGetNumOperands(s->op), results = mlirOperationGetNumResults(s->op);
  for (int i = 0; i < n; i++) {
    if (which[i] == operands + results) {
      add_buffer(w, workspace, k->workspace_bytes, NNC_NO_VALUES);
      continue;
    }
    bool written = which[i] >= operands;
    tables_add_value(w,
                     written ? mlirOperationGetResult(s->op, which[i] - operands)
                             : mlirOperationGetOperand(s->op, which[i]),
                     written);
  }
  return first;
}

// A step per launch of a kernel; they share buffers, the workspace being the last.
static void add_launches(Tables *w, const NnStep *s, const EmittedKernel *k, int number, const KernelCost *cost) {
  int64_t workspace = nn_attr_i64(s->op, ATTR_workspace, -1);
  int first = tables_add_values(w, s->op, -1);
  require_promise(k->workspace_bytes == 0 || workspace >= 0, "a kernel without its workspace");
  if (k->workspace_bytes) add_buffer(w, workspace, k->workspace_bytes, NNC_NO_VALUES);
  int n_all = w->n_buffers - first;
  for (int i = 0; i < k->n_launches; i++) {
    const KernelLaunch *l = &k->launches[i];
    int from = l->buffers ? repeat_buffers(w, s, k, workspace, l->n_buffers, l->buffers) : first;
    char label[16], key[16];
    snprintf(label, sizeof label, "L%d", number), snprintf(key, sizeof key, "K%d", number);
    StepHead head = {.kind = "NNC_STEP_KERNEL",
                     .label = label,
                     .n_buffers = l->buffers ? l->n_buffers : n_all,
                     .first = from,
                     .workspace = -1,
                     .recomputed = s->recomputed,
                     .cost_key = key,
                     .op = s->op};
    // the whole cost stands at the first launch
    if (!i) head.flops = cost->flops, head.bytes = nn_op_bytes(s->op), head.seconds = cost->seconds;
    tables_begin_step(w, &head);
    add_launch(w, l, 0);
    add_expression(cost->expression, first, from, ",.expression=", &w->steps);
    tables_end_step(w, from);
  }
}

// One of a group's calls, appended to the list of its step's parts.
static NncPart add_part(Tables *w, MlirOperation call, int first, int from, Text *list) {
  MlirOperation kernel = nn_callee(call);
  char *key = cost_key(call, kernel);
  NncPart part = {.flops = nn_op_flops(kernel),
                  .bytes = nn_op_bytes(call),
                  .seconds = target_kernel_seconds(w->target, call, kernel)};
  text_add(list, "{");
  text_quoted(list, key);
  text_add(list, ",%.6g,%.6g,%.6g", part.flops, part.bytes, part.seconds);
  add_expression(expression_id(w, kernel), first, from, ",", list);
  text_add(list, "},");
  free(key);
  return part;
}

// All calls of a group, where the last of them stands: the arena is the kernel's only address, the buffers are known to
// the runtime.
static void add_group_step(Tables *w, const NnStep *s, const KernelGroup *g) {
  if (g->calls[g->n - 1].ptr != s->op.ptr) return;
  const EmittedKernel *k = emitted_kernel_find(w->kernels, w->kernels->groups->bodies[g->body].name);
  require_promise(k != NULL, "a group without its kernel");
  int first = add_buffer(w, 0, 0, NNC_NO_VALUES);
  NncPart all = {0};
  Text parts = {0};
  for (int i = 0; i < g->n; i++) {
    NncPart part = add_part(w, g->calls[i], tables_add_values(w, g->calls[i], -1), first, &parts);
    all.flops += part.flops, all.bytes += part.bytes, all.seconds += part.seconds;
  }
  bool large = w->kernels->groups->bodies[g->body].kind == GROUP_LARGE_TOTAL;
  if (large) add_buffer(w, g->workspace, 8 * GROUP_TOTAL_PARTS, NNC_NO_VALUES);
  int n = w->n_buffers - first;
  for (int l = 0; l < 1 + large; l++) {
    char label[16];
    snprintf(label, sizeof label, "L%d", (int)(k - w->kernels->items));
    StepHead head =
        {.kind = "NNC_STEP_KERNEL", .label = label, .n_buffers = n, .first = first, .workspace = -1, .op = s->op};
    // the whole cost stands at the first launch
    if (!l) head.flops = all.flops, head.bytes = all.bytes, head.seconds = all.seconds;
    tables_begin_step(w, &head);
    add_launch(w, &k->launches[g->launch + l], n - 1);
    if (!l) text_add(&w->steps, ",.n_parts=%d,.parts=(const NncPart[]){%s}", g->n, text_c_string(&parts));
    tables_end_step(w, first);
  }
  text_free(&parts);
}

static void add_kernel_steps(Tables *w, const NnStep *s) {
  const KernelGroup *group = kernel_group_of(w->kernels->groups, s->op);
  if (group) {
    add_group_step(w, s, group);
    return;
  }
  MlirStringRef symbol = nn_callee_name(s->op);
  char *name = text_format("%.*s", (int)symbol.length, symbol.data);
  const EmittedKernel *k = emitted_kernel_find(w->kernels, name);
  free(name);
  require_promise(k != NULL, "a call of a kernel that does not exist");
  int number = (int)(k - w->kernels->items);
  const KernelCost *cost = kernel_cost(w, number, s->op,
                                       w->costs[number].known ? nn_null_operation() : nn_callee(s->op));
  add_launches(w, s, k, number, cost);
}

// Where the target has a kernel for it.
static void add_kernels_of(Tables *w, const NnStep *s, char *name) {
  const EmittedKernel *k = emitted_kernel_find(w->kernels, name);
  require_promise(k != NULL, "a library op without its kernel");
  free(name);
  int number = (int)(k - w->kernels->items);
  add_launches(w, s, k, number, kernel_cost(w, number, s->op, nn_null_operation()));
}

static void add_library_step(Tables *w, const NnStep *s) {
  char *kernel = w->target->library_kernel(w->target, s->op);
  if (kernel) add_kernels_of(w, s, kernel);
  else tables_add_library(w, s);
}

static void add_tap(Tables *w, const NnStep *s) {
  MlirValue v = mlirOperationGetOperand(s->op, 0);
  NnType type = nn_value_type(v);
  char *name = string_of(nn_attribute(s->op, "name"));
  int64_t pitch = type.rank ? type.dim[type.rank - 1] : 1, columns = nn_attr_i64(s->op, "columns", pitch);
  int64_t shape[NN_MAX_RANK], rows = 0;
  int rank = nn_attr_i64s(s->op, "shape", shape, NN_MAX_RANK);
  if (rank > 0) rows = type.dim[0], type = nn_type(type.dtype, rank, shape);
  if (type.rank) type.dim[type.rank - 1] = columns;
  char extra[128] = "";
  if (rows || columns < pitch)
    snprintf(extra, sizeof extra, ",\"\",.pitch=%lld,.first_row=%lld,.rows=%lld", (long long)pitch,
             (long long)nn_attr_i64(s->op, "first", 0), (long long)rows);
  add_tensor(&w->taps, name, "NNC_OUTPUT", &type, offsets_of(w->offsets, v), -1, extra);
  tables_begin_step(w, &(StepHead){.kind = "NNC_STEP_TAP", .label = "\"tap\"", .workspace = -1});
  text_add(&w->steps, ".tap=T+%d", w->n_taps++);
  tables_end_step(w, 0);
  free(name);
}

void tables_add_copy(Tables *w, int64_t from, int64_t to, int64_t bytes) {
  int first = add_buffer(w, from, bytes, NNC_NO_VALUES);
  add_buffer(w, to, bytes, NNC_NO_VALUES);
  tables_begin_step(
      w, &(StepHead){.kind = "NNC_STEP_COPY", .label = "\"copy\"", .n_buffers = 2, .first = first, .workspace = -1});
  text_add(&w->steps, ".copy_bytes=%lld", (long long)bytes);
  tables_end_step(w, first);
}

static void add_copy_op(Tables *w, MlirOperation op) {
  NnType type = nn_value_type(mlirOperationGetResult(op, 0));
  tables_add_copy(w, offsets_of(w->offsets, mlirOperationGetOperand(op, 0)),
                  offsets_of(w->offsets, mlirOperationGetResult(op, 0)), nn_type_bytes(&type));
}

// Tied updates that could not be computed in their argument's buffer.
static void add_copies(Tables *w, MlirOperation func) {
  MlirOperation ret = nn_function_return(func);
  for (int r = 0; r < nn_function_n_results(func); r++) {
    int64_t arg = nn_result_i64(func, r, ATTR_tied, -1);
    if (arg < 0 || mlirAttributeIsNull(nn_result_attr(func, r, ATTR_copy_back))) continue;
    MlirValue v = mlirOperationGetOperand(ret, r);
    NnType type = nn_value_type(v);
    tables_add_copy(w, offsets_of(w->offsets, v), nn_arg_i64(func, (int)arg, ATTR_offset, 0), nn_type_bytes(&type));
  }
}

// Results that leave as taps of their rows, in memory of the host beside the arena.
static void add_streamed(Text *t, MlirOperation func, int *count) {
  NnStepList steps = nn_flatten(func);
  int64_t offset = 0;
  for (int i = 0; i < steps.n; i++) {
    MlirOperation op = steps.items[i].op;
    if (nn_op_of(op) != NN_OP_tap || !nn_has_attr(op, "role") || nn_attr_i64(op, "first", 0) > 0) continue;
    int64_t shape[NN_MAX_RANK];
    int rank = nn_attr_i64s(op, "shape", shape, NN_MAX_RANK);
    NnType type = nn_type(nn_value_dtype(mlirOperationGetOperand(op, 0)), rank, shape);
    char *name = string_of(nn_attribute(op, "name"));
    add_tensor(t, name, "NNC_OUTPUT", &type, offset, -1, ",\"\",.streamed=true");
    offset += round_up(nn_type_bytes(&type), NNC_ALIGN);
    free(name);
    (*count)++;
  }
  nn_steps_free(&steps);
}

static void add_results(Tables *w, Text *t, MlirOperation func, int *count) {
  MlirOperation ret = nn_function_return(func);
  for (int r = 0; r < nn_function_n_results(func); r++) {
    char *role = string_of(nn_result_attr(func, r, ATTR_role)), *name = string_of(nn_result_attr(func, r, ATTR_name));
    if (*role && strcmp(role, "update") != 0) {
      MlirValue v = mlirOperationGetOperand(ret, r);
      NnType type = nn_value_type(v);
      add_tensor(t, name, role_name(role), &type, offsets_of(w->offsets, v), -1, "");
      (*count)++;
    }
    free(role);
    free(name);
  }
}

void tables_add_step(Tables *w, const NnStep *s) {
  NnScan scan;
  if (s->role == NN_STEP_TAP) add_tap(w, s);
  if (s->role != NN_STEP_RUN) return;
  if (nn_scan_of(s->op, &scan)) tables_add_scan(w, s, &scan);
  else if (nn_is(s->op, "func.call")) add_kernel_steps(w, s);
  else if (nn_op_of(s->op) == NN_OP_copy) add_copy_op(w, s->op);
  else add_library_step(w, s);
}

// One function: its steps into w->steps, its entry into `entry`.
static void add_function(Tables *w, MlirOperation func, int index, Text *out, Text *entry) {
  NnStepList steps = nn_flatten(func);
  Offsets offsets = {0};
  offsets_build(&offsets, func, &steps);
  w->offsets = &offsets;
  w->n_steps = 0;
  w->flops = 0;
  text_add(&w->steps, "static const NncStep S%d[] = {\n", index);
  tables_begin_lanes(w, &steps);
  for (int i = 0; i < steps.n; i++) {
    tables_next_lane(w, &steps.items[i]);
    tables_add_step(w, &steps.items[i]);
    tables_lane_written(w, &steps.items[i]);
  }
  tables_join_lanes(w);
  add_copies(w, func);
  tables_end_lanes(w);
  text_add(&w->steps, "  {0}};\n");
  int n_args = 0, n_results = 0;
  text_add(out, "static const NncTensor A%d[] = {\n", index);
  for (int a = 0; a < nn_function_n_args(func); a++)
    if (!is_persistent(func, a)) add_argument(out, func, a), n_args++;
  text_add(out, "  {0}};\nstatic const NncTensor R%d[] = {\n", index);
  add_results(w, out, func, &n_results);
  add_streamed(out, func, &n_results);
  text_add(out, "  {0}};\n");
  char *name = string_of(nn_attribute(func, "sym_name"));
  text_add(entry,
           "  "
           "{.name=\"%s\",.n_args=%d,.args=A%d,.n_results=%d,.results=R%d,.n_steps=%d,.steps=S%d,.arena_bytes=%lld,."
           "far_bytes=%lld,.live_bytes=%lld,.flops=%.6g,.recompute_overhead=%.6g},\n",
           name, n_args, index, n_results, index, w->n_steps, index, (long long)nn_attr_i64(func, ATTR_arena, 0),
           (long long)nn_attr_i64(func, ATTR_far_arena, 0), (long long)nn_attr_i64(func, ATTR_live, 0), w->flops,
           nn_attr_f64(func, ATTR_overhead, 0));
  free(name);
  offsets_free(&offsets);
  nn_steps_free(&steps);
}

// ---------------------------------------------------------------------------------------------------------------------

static void declare_kernels(Text *out, const EmittedKernels *kernels) {
  text_add(out, "// Written by nnc: the tables of the program. runtime/program.h describes them.\n#include "
                "\"runtime/program.h\"\n\n");
  for (int i = 0; i < kernels->n; i++) {
    const EmittedKernel *k = &kernels->items[i];
    for (int j = 0; j < k->n_launches && !k->launches[j].grid[0]; j++)
      text_add(out, "void %s(void *const *, int64_t, int64_t);\n", k->launches[j].symbol);
    char *label = text_format("%s: %s", k->name, k->summary);
    text_add(out, "static const char L%d[] = ", i);
    text_quoted(out, label);
    text_add(out, ";\n");
    free(label);
  }
}

// An array of numbers: in the text or, with a folder, as a file there, since the C compiler takes microseconds for each
// number.
static bool add_array(Text *out, const char *name, Text *numbers, const char *folder) {
  size_t n = numbers->size / sizeof(int64_t);
  if (!folder) {
    text_add(out, "static const int64_t %s[] = {", name);
    for (size_t i = 0; i < n; i++) {
      int64_t number;
      memcpy(&number, numbers->data + i * sizeof number, sizeof number);
      if (i % 16 == 0) text_append(out, "\n", 1);
      text_add_integer(out, number);
      text_append(out, ",", 1);
    }
    text_add(out, "\n0};\n");
    return true;
  }
  char *path = text_format("%s/%s.bin", folder, name);
  Text directives = {0};
  text_add(&directives, ".section .rodata\n.balign 8\nnnc_%s: .incbin ", name);
  text_quoted(&directives, path);
  text_add(&directives, "\n.quad 0\n.previous");
  text_add(out, "extern const int64_t %s[] __asm__(\"nnc_%s\") __attribute__((visibility(\"hidden\")));\n__asm__(",
           name, name);
  text_quoted(out, text_c_string(&directives));
  text_add(out, ");\n");
  text_free(&directives);
  bool ok = output_write_text(path, numbers);
  free(path);
  return ok;
}

bool tables_write(const CodegenTarget *target, MlirModule module, const EmittedKernels *kernels,
                  const CodegenOptions *options, const char *folder, Text *out) {
  NnFunctions functions = nn_public_functions(module);
  Tables w = {.target = target,
              .kernels = kernels,
              .costs = allocate_array((size_t)kernels->n + 1, sizeof(KernelCost))};
  Text entries = {0}, tensors = {0};
  declare_kernels(out, kernels);
  for (int i = 0; i < functions.n; i++) {
    int depth = scan_depth(functions.items[i]);
    if (depth > w.depth) w.depth = depth;
  }
  int n_persistent = add_persistent(out, functions.n, functions.items);
  for (int i = 0; i < functions.n; i++) add_function(&w, functions.items[i], i, &tensors, &entries);
  text_append(out, tensors.data, tensors.size);
  text_append(out, w.records.data, w.records.size);
  text_append(out, w.keys.data, w.keys.size);
  bool ok = add_array(out, "B", &w.buffers, folder) && add_array(out, "Z", &w.buffer_bytes, folder) &&
            add_array(out, "V", &w.buffer_values, folder);
  text_add(out, "static const NncTensor T[] = {\n%s  {0}};\n", text_c_string(&w.taps));
  if (w.n_scans) ok = ok && add_array(out, "D", &w.strides, folder);
  if (w.n_launches) text_add(out, "static const NncLaunch G[] = {\n%s};\n", text_c_string(&w.launches));
  text_append(out, w.scans.data, w.scans.size);
  text_append(out, w.steps.data, w.steps.size);
  text_add(out, "static const char *const expressions[] = {\n%s  0};\n", text_c_string(&w.expressions));
  text_add(out, "static const NncFunction functions[] = {\n%s  {0}};\n", text_c_string(&entries));
  tables_add_program(target, out, module, options, functions.n, n_persistent);
  text_free(&entries);
  text_free(&tensors);
  free(w.costs);
  text_free(&w.keys);
  ptr_map_free(&w.launch_ids);
  text_free(&w.launches);
  ptr_map_free(&w.record_ids);
  text_free(&w.records);
  text_free(&w.buffers);
  text_free(&w.buffer_bytes);
  text_free(&w.buffer_values);
  ptr_map_free(&w.place_ids);
  ptr_map_free(&w.expression_ids);
  text_free(&w.expressions);
  text_free(&w.taps);
  text_free(&w.strides);
  text_free(&w.scans);
  text_free(&w.stride_rows);
  text_free(&w.steps);
  return ok;
}
