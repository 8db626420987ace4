// The part of program.c that comes from the module's attributes: data, parameter groups, schedule, nnc_program itself.
#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>

#include "codegen/library.h"
#include "codegen/tables.h"
#include "support/text.h"
#include "support/version.h"

static MlirAttribute entry(MlirAttribute dictionary, const char *name) {
  return mlirDictionaryAttrGetElementByName(dictionary, nn_string_ref(name));
}

static double number(MlirAttribute a, double otherwise) {
  if (mlirAttributeIsNull(a)) return otherwise;
  if (mlirAttributeIsAFloat(a)) return mlirFloatAttrGetValueDouble(a);
  if (mlirAttributeIsABool(a)) return mlirBoolAttrGetValue(a);
  return mlirAttributeIsAInteger(a) ? (double)mlirIntegerAttrGetValueInt(a) : otherwise;
}

static int64_t integer(MlirAttribute a, int64_t otherwise) {
  return mlirAttributeIsNull(a) || !mlirAttributeIsAInteger(a) ? otherwise : mlirIntegerAttrGetValueInt(a);
}

static void add_string(Text *t, MlirAttribute a, const char *otherwise) {
  if (mlirAttributeIsNull(a) || !mlirAttributeIsAString(a)) {
    text_quoted(t, otherwise);
    return;
  }
  MlirStringRef s = mlirStringAttrGetValue(a);
  char *copy = text_format("%.*s", (int)s.length, s.data);
  text_quoted(t, copy);
  free(copy);
}

// "n_names=2,.names=(const char *const[]){"a","b"}"
static void add_strings(Text *t, const char *what, MlirAttribute list) {
  intptr_t n = mlirAttributeIsNull(list) ? 0 : mlirArrayAttrGetNumElements(list);
  text_add(t, ",\n   .n_%s=%d", what, (int)n);
  if (!n) return;
  text_add(t, ",.%s=(const char *const[]){", what);
  for (intptr_t i = 0; i < n; i++) {
    if (i) text_add(t, ",");
    add_string(t, mlirArrayAttrGetElement(list, i), "");
  }
  text_add(t, "}");
}

static void add_integers(Text *t, const char *what, MlirAttribute list) {
  intptr_t n = mlirAttributeIsNull(list) ? 0 : mlirArrayAttrGetNumElements(list);
  if (!n) return;
  text_add(t, ",.%s=(const int32_t[]){", what);
  for (intptr_t i = 0; i < n; i++)
    text_add(t, "%s%lld", i ? "," : "", (long long)integer(mlirArrayAttrGetElement(list, i), 0));
  text_add(t, "}");
}

// "u16" as NNC_U16.
static void add_dtype(Text *t, MlirAttribute name) {
  if (mlirAttributeIsNull(name)) return;
  MlirStringRef s = mlirStringAttrGetValue(name);
  text_add(t, ",.dtype=NNC_");
  for (size_t i = 0; i < s.length; i++) text_add(t, "%c", toupper((unsigned char)s.data[i]));
}

// -1: it needs no library.
static int optional_reader(MlirAttribute name) {
  for (int i = 0; codegen_reader(i); i++)
    if (mlirStringRefEqual(mlirStringAttrGetValue(name), nn_string_ref(codegen_reader(i)))) return i;
  return -1;
}

unsigned tables_readers(MlirModule module) {
  MlirAttribute list = nn_attribute(mlirModuleGetOperation(module), ATTR_data);
  unsigned readers = 0;
  for (intptr_t i = 0; !mlirAttributeIsNull(list) && i < mlirArrayAttrGetNumElements(list); i++) {
    int reader = optional_reader(entry(mlirArrayAttrGetElement(list, i), "reader"));
    if (reader >= 0) readers |= 1u << reader;
  }
  return readers;
}

static int add_data(Text *t, MlirAttribute list) {
  int n = mlirAttributeIsNull(list) ? 0 : (int)mlirArrayAttrGetNumElements(list);
  text_add(t, "static const NncData data[] = {\n");
  for (int i = 0; i < n; i++) {
    MlirAttribute d = mlirArrayAttrGetElement(list, i);
    text_add(t, "  {.split=");
    add_string(t, entry(d, "split"), "train");
    text_add(t, ",.reader=");
    add_string(t, entry(d, "reader"), "");
    add_strings(t, "names", entry(d, "names"));
    add_strings(t, "files", entry(d, "files"));
    add_integers(t, "field_counts", entry(d, "field_counts"));
    text_add(t, ",.hash=%lld,.separator=%lld", (long long)integer(entry(d, "hash"), 0),
             (long long)integer(entry(d, "separator"), ','));
    add_integers(t, "file_counts", entry(d, "file_counts"));
    add_dtype(t, entry(d, "dtype"));
    int reader = optional_reader(entry(d, "reader"));
    if (reader >= 0) text_add(t, ",.open=nnc_open_%s", codegen_reader(reader));
    text_add(t, ",.resize=%lld", (long long)integer(entry(d, "resize"), 0));
    text_add(t, ",.num_workers=%lld,.prefetch_factor=%lld,.skip_broken=%s",
             (long long)integer(entry(d, "num_workers"), 0), (long long)integer(entry(d, "prefetch_factor"), 0),
             integer(entry(d, "skip_broken"), 0) ? "true" : "false");
    add_strings(t, "fields", entry(d, "fields"));
    add_strings(t, "flipped", entry(d, "flipped"));
    add_strings(t, "cropped", entry(d, "cropped"));
    text_add(t, ",.flip=%.17g,.crop=%lld", number(entry(d, "flip"), 0), (long long)integer(entry(d, "crop"), 0));
    text_add(t, ",.begin_permille=%lld,.end_permille=%lld,.sequence=%lld,.whole=%s,.continued=%s},\n",
             (long long)integer(entry(d, "begin"), 0), (long long)integer(entry(d, "end"), 1000),
             (long long)integer(entry(d, "sequence"), 0), integer(entry(d, "whole"), 0) ? "true" : "false",
             integer(entry(d, "continued"), 0) ? "true" : "false");
  }
  text_add(t, "  {0}};\n");
  return n;
}

// The statements of a function of two numbers, as the frontend wrote them.
static void add_schedule(Text *t, const char *name, MlirAttribute schedule) {
  if (mlirAttributeIsNull(schedule)) return;
  MlirStringRef body = mlirStringAttrGetValue(schedule);
  text_add(t, "#include <math.h>\nstatic double %s(double step, double steps) {\n  (void)step, (void)steps;\n%.*s}\n",
           name, (int)body.length, body.data);
}

static int add_groups(Text *t, MlirAttribute list) {
  int n = mlirAttributeIsNull(list) ? 0 : (int)mlirArrayAttrGetNumElements(list);
  Text rows = {0};
  for (int i = 0; i < n; i++) {
    MlirAttribute g = mlirArrayAttrGetElement(list, i), rate = entry(g, "rate");
    char *name = text_format("rate_%d", i);
    add_schedule(t, name, rate);
    text_add(&rows, "  {%.17g,%.17g,%.17g,%s},\n", number(entry(g, "lr"), 0), number(entry(g, "beta1"), 0),
             number(entry(g, "beta2"), 0), mlirAttributeIsNull(rate) ? "0" : name);
    free(name);
  }
  text_add(t, "static const NncGroup groups[] = {\n%.*s  {0}};\n", (int)rows.size, rows.size ? rows.data : "");
  text_free(&rows);
  return n;
}

static int add_phases(Text *t, MlirAttribute list) {
  int n = mlirAttributeIsNull(list) ? 0 : (int)mlirArrayAttrGetNumElements(list);
  Text rows = {0};
  for (int i = 0; i < n; i++) {
    MlirAttribute p = mlirArrayAttrGetElement(list, i), schedule = entry(p, "schedule");
    char *name = text_format("schedule_%d", i);
    add_schedule(t, name, schedule);
    text_add(&rows, "  {.name=");
    add_string(&rows, entry(p, "name"), "");
    text_add(&rows, ",.optimizer=");
    add_string(&rows, entry(p, "optimizer"), "");
    text_add(&rows, ",.every=%lld,.first_group=%lld,.n_groups=%lld,.schedule=%s},\n",
             (long long)integer(entry(p, "every"), 1), (long long)integer(entry(p, "first"), 0),
             (long long)integer(entry(p, "groups"), 0), mlirAttributeIsNull(schedule) ? "0" : name);
    free(name);
  }
  if (n) text_add(t, "static const NncPhase phases[] = {\n%.*s  {0}};\n", (int)rows.size, rows.data);
  text_free(&rows);
  return n;
}

static void add_training(Text *t, MlirOperation top, MlirAttribute schedule) {
  text_add(t, "  .optimizer=");
  add_string(t, nn_attribute(top, ATTR_optimizer), "");
  text_add(t, ",\n%s", mlirAttributeIsNull(schedule) ? "" : "  .schedule=schedule,\n");
  text_add(t,
           "  "
           ".batch=%lld,.accumulate=%lld,.epochs=%.17g,.steps=%lld,.eval_every=%lld,.seed=%lld,.patience=%lld,."
           "validation=%.17g,\n",
           (long long)nn_attr_i64(top, ATTR_batch, 1), (long long)nn_attr_i64(top, ATTR_accumulate, 1),
           nn_attr_f64(top, ATTR_epochs, 0), (long long)nn_attr_i64(top, ATTR_steps, 0),
           (long long)nn_attr_i64(top, ATTR_eval_every, 0), (long long)nn_attr_i64(top, ATTR_seed, 0),
           (long long)nn_attr_i64(top, ATTR_patience, 0), nn_attr_f64(top, ATTR_validation, 0));
}

void tables_add_program(const CodegenTarget *target, Text *out, MlirModule module, const CodegenOptions *options,
                        int n_functions, int n_persistent) {
  MlirOperation top = mlirModuleGetOperation(module);
  MlirAttribute (*get)(MlirOperation, MlirStringRef) = mlirOperationGetAttributeByName;
  int n_data = add_data(out, get(top, nn_string_ref(ATTR_data)));
  int n_groups = add_groups(out, get(top, nn_string_ref(ATTR_groups)));
  int n_phases = add_phases(out, get(top, nn_string_ref(ATTR_phases)));
  add_schedule(out, "schedule", get(top, nn_string_ref(ATTR_schedule)));
  target->write_definitions(target, out);
  text_add(out, "const NncProgram nnc_program = {\n  .model=");
  add_string(out, get(top, nn_string_ref(ATTR_model)), "model");
  text_add(out, ",.source=");
  add_string(out, get(top, nn_string_ref(ATTR_source)), options->source_name ? options->source_name : "");
  if (options->source_id) text_add(out, ",.source_id=\"%016" PRIx64 "\"", options->source_id);
  text_add(out, ",.compiler=\"%s\",\n  .target=\"%s\",.cpu=", NNC_VERSION, target->facts.name);
  target->write_cpu(target, out);
  add_strings(out, "labels", get(top, nn_string_ref(ATTR_labels)));
  target->write_device(target, module, out);
  if (options->far_path) {
    text_add(out, "  .far_path=");
    text_quoted(out, options->far_path);
    text_add(out, ",\n");
  }
  text_add(out,
           "  .arena_bytes=%lld,.persistent_bytes=%lld,.far_bytes=%lld,.far_persistent_bytes=%lld,.budget_bytes=%lld,"
           ".remat=",
           (long long)nn_attr_i64(top, ATTR_arena, 0), (long long)nn_attr_i64(top, ATTR_persistent, 0),
           (long long)nn_attr_i64(top, ATTR_far_arena, 0), (long long)nn_attr_i64(top, ATTR_far_persistent, 0),
           (long long)nn_attr_i64(top, ATTR_budget, 0));
  MlirOperation train = nn_module_train(module);
  add_string(out, mlirOperationIsNull(train) ? mlirAttributeGetNull() : get(train, nn_string_ref(ATTR_remat)), "none");
  text_add(out,
           ",\n  "
           ".n_persistent=%d,.persistent=persistent,.n_functions=%d,.functions=functions,.expressions=expressions,.n_"
           "data=%d,.data=data,.n_"
           "groups=%d,.groups=groups,\n",
           n_persistent, n_functions, n_data, n_groups);
  if (options->ranks)
    text_add(out, "  .comms=(const struct NncComm *const[]){%s&nnc_comm_tcp,0},\n",
             options->mpi ? "&nnc_comm_mpi," : "");
  if (nn_has_attr(top, ATTR_shard)) {
    text_add(out, "  .shard=");
    add_string(out, get(top, nn_string_ref(ATTR_shard)), "");
    text_add(out, ",.ranks=%lld,\n", (long long)nn_attr_i64(top, ATTR_ranks, 0));
  }
  if (n_phases) text_add(out, "  .n_phases=%d,.phases=phases,\n", n_phases);
  add_training(out, top, get(top, nn_string_ref(ATTR_schedule)));
  text_add(out, "};\n");
  if (options->library) library_write_table(module, options, target->facts.name, out);
}
