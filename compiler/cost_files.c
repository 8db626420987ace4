// Machine descriptions and measured times; cost_files.h. Both are JSON, read with the solver's strict reader; every
// mistake is reported at its place in the file.
#include "compiler/cost_files.h"

#include <dirent.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/library.h"
#include "support/alloc.h"
#include "support/input_error.h"
#include "support/json.h"
#include "support/names.h"
#include "support/text.h"

typedef struct Reader {
  Diagnostics *d;
  const Source *source;
  bool ok;
} Reader;

// Columns of JsonValue count characters, those of AstPos bytes.
static AstPos place(const Source *source, int line, int column) {
  size_t length;
  const char *text = source_line(source, line, &length);
  size_t byte = 0;
  for (int character = 1; character < column && byte < length; character++)
    for (byte++; byte < length && ((unsigned char)text[byte] & 0xc0) == 0x80;) byte++;
  return (AstPos){.source = source, .line = line, .column = (int)byte + 1};
}

static AstPos at(const Reader *r, const JsonValue *v) { return place(r->source, v->line, v->column); }

static JsonDocument *open_json(Reader *r, const char *path, const char *option) {
  const char *reason = NULL;
  Source *source = source_read(path, &reason);
  if (!source) {
    diag_error(r->d, DIAG_COMMAND_LINE, "%s: cannot read '%s': %s", option, path, reason);
    return NULL;
  }
  r->source = diag_add_source(r->d, source);
  InputError error = {0};
  JsonDocument *document = json_parse(source->text, source->length, &error);
  if (!document) diag_error(r->d, place(r->source, error.line, error.column), "%s", error.message);
  return document;
}

static bool check_format(Reader *r, const JsonValue *root, const char *format) {
  const JsonValue *v = json_get(root, "format");
  if (v && v->type == JSON_STRING && strcmp(v->string, format) == 0) return true;
  if (v && v->type == JSON_STRING)
    return diag_error(r->d, at(r, v), "expected the format \"%s\", found \"%s\"", format, v->string);
  return diag_error(r->d, at(r, root), "expected an object with \"format\": \"%s\"", format);
}

// A member that must be a number of at least `least`; 0 when it is missing and `optional`.
static double number(Reader *r, const JsonValue *object, const char *key, double least, bool optional) {
  const JsonValue *v = json_get(object, key);
  if (!v && optional) return 0;
  if (!v) r->ok = diag_error(r->d, at(r, object), "'%s' is missing", key);
  else if (v->type != JSON_NUMBER)
    r->ok = diag_error(r->d, at(r, v), "'%s' must be a number, found %s", key, json_type_name(v->type));
  else if (!(v->number >= least) || (least > 0 && v->number > 1e30))
    r->ok = diag_error(r->d, at(r, v), "'%s' must be %s", key, least > 0 ? "positive" : "0 or more");
  else return v->number;
  return least;
}

static const JsonValue *object_of(Reader *r, const JsonValue *parent, const char *key) {
  const JsonValue *v = json_get(parent, key);
  if (v && v->type == JSON_OBJECT) return v;
  if (v) r->ok = diag_error(r->d, at(r, v), "'%s' must be an object, found %s", key, json_type_name(v->type));
  else r->ok = diag_error(r->d, at(r, parent), "'%s' is missing", key);
  return NULL;
}

// A misspelt key would silently leave a default.
static void check_keys(Reader *r, const JsonValue *object, int n, const char *const *known) {
  for (const JsonValue *v = object->first; v; v = v->next) {
    NameSearch search = name_search(v->key);
    bool found = false;
    for (int i = 0; i < n; i++) {
      found |= strcmp(v->key, known[i]) == 0;
      name_consider(&search, known[i]);
    }
    for (const JsonValue *w = object->first; w != v; w = w->next)
      if (strcmp(w->key, v->key) == 0) r->ok = diag_error(r->d, at(r, v), "'%s' stands here twice", v->key);
    if (found) continue;
    r->ok = diag_error(r->d, at(r, v), "unknown entry '%s'", v->key);
    if (search.best) diag_hint(r->d, "did you mean '%s'?", search.best);
  }
}
#define CHECK_KEYS(r, object, words) check_keys(r, object, (int)(sizeof(words) / sizeof *(words)), words)

// --- Machines

#define TINY 1e-30   // "positive"

static void read_shares(Reader *r, const JsonValue *root, Machine *m) {
  static const char *const entries[] = {"flops", "bytes", "half_size"};
  const JsonValue *shares = object_of(r, root, "efficiency");
  if (!shares) return;
  CHECK_KEYS(r, shares, cost_class_names);
  for (int c = 0; c < COST_CLASSES; c++) {
    const JsonValue *share = object_of(r, shares, cost_class_names[c]);
    if (!share) continue;
    CHECK_KEYS(r, share, entries);
    m->share[c].flops = number(r, share, "flops", TINY, false);
    m->share[c].bytes = number(r, share, "bytes", TINY, false);
    m->share[c].half_size = number(r, share, "half_size", 0, true);
  }
}

static void read_links(Reader *r, const JsonValue *root, Machine *m) {
  static const char *const kinds[] = {"node", "network"},
                           *const nodes[] = {"ranks", "bytes_per_second", "message_seconds"},
                           *const networks[] = {"bytes_per_second", "message_seconds"};
  const JsonValue *links = json_get(root, "links") ? object_of(r, root, "links") : NULL;
  if (!links) return;
  CHECK_KEYS(r, links, kinds);
  const JsonValue *node = object_of(r, links, "node");
  if (node) {
    CHECK_KEYS(r, node, nodes);
    m->node_ranks = (int64_t)number(r, node, "ranks", 1, false);
    m->node.bytes_per_second = number(r, node, "bytes_per_second", TINY, false);
    m->node.message_seconds = number(r, node, "message_seconds", 0, false);
  }
  const JsonValue *network = json_get(links, "network") ? object_of(r, links, "network") : NULL;
  if (!network) return;
  CHECK_KEYS(r, network, networks);
  m->network.bytes_per_second = number(r, network, "bytes_per_second", TINY, false);
  m->network.message_seconds = number(r, network, "message_seconds", 0, false);
}

static void read_far(Reader *r, const JsonValue *root, Machine *m) {
  static const char *const entries[] = {"out_bytes_per_second", "in_bytes_per_second", "copy_seconds",
                                        "drag_seconds_per_byte"};
  const JsonValue *far = json_get(root, "far") ? object_of(r, root, "far") : NULL;
  if (!far) return;
  CHECK_KEYS(r, far, entries);
  m->far.out_bytes_per_second = number(r, far, entries[0], TINY, false);
  m->far.in_bytes_per_second = number(r, far, entries[1], TINY, false);
  m->far.copy_seconds = number(r, far, entries[2], 0, false);
  m->far.drag_seconds_per_byte = number(r, far, entries[3], 0, true);
}

static void read_machine(Reader *r, const JsonValue *root, Machine *m) {
  static const char *const entries[] =
      {"format",     "name",  "source", "flops_per_second", "bytes_per_second", "cache", "launch_seconds",
       "efficiency", "links", "far"};
  static const char *const types[] = {"f32", "f64", "tf32", "f16", "bf16"}, *const caches[] = {"bytes",
                                                                                               "bytes_per_second"};
  CHECK_KEYS(r, root, entries);
  const JsonValue *flops = object_of(r, root, "flops_per_second");
  if (flops) {
    CHECK_KEYS(r, flops, types);
    double rate[sizeof types / sizeof *types];
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
      rate[i] = i == 0 || json_get(flops, types[i]) ? number(r, flops, types[i], TINY, false) : 0;
    m->flops_per_second[NN_F32] = rate[0];
    m->tf32_flops_per_second = rate[2];
    m->flops_per_second[NN_F16] = rate[3];
    m->flops_per_second[NN_BF16] = rate[4];
    m->flops_per_second[NN_F64] = rate[1] > 0 ? rate[1] : rate[0] / 2;
  }
  m->bytes_per_second = number(r, root, "bytes_per_second", TINY, false);
  m->launch_seconds = number(r, root, "launch_seconds", 0, false);
  const JsonValue *cache = json_get(root, "cache") ? object_of(r, root, "cache") : NULL;
  if (cache) {
    CHECK_KEYS(r, cache, caches);
    m->cache_bytes = number(r, cache, "bytes", 0, false);
    m->cache_bytes_per_second = number(r, cache, "bytes_per_second", TINY, false);
  }
  read_shares(r, root, m);
  read_links(r, root, m);
  read_far(r, root, m);
}

static bool is_folder(const char *path) {
  DIR *folder = opendir(path);
  if (folder) closedir(folder);
  return folder != NULL;
}

// The descriptions beside this executable: in the build tree, the source tree's; installed, share/nnc/machines. Owned:
// free().
static char *machines_folder(void) {
  char self[PATH_MAX] = "";
  ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
  if (n > 0) self[n] = 0;
  char *slash = strrchr(self, '/');
  if (slash) *slash = 0;
  if (strcmp(self, NNC_BUILD_RUNTIME_DIR) == 0) return copy_string(NNC_BUILD_SOURCE_DIR "/machines");
  char *beside = text_format("%s/../share/nnc/machines", self);
  if (is_folder(beside)) return beside;
  free(beside);
  return copy_string(NNC_INSTALL_DATADIR "/machines");
}

static bool unknown_machine(Diagnostics *d, const char *name, const char *folder) {
  Text list = {0};
  NameSearch search = name_search(name);
  struct dirent **found;
  int n = scandir(folder, &found, NULL, alphasort);
  for (int i = 0; i < n; i++) {
    char *end = strrchr(found[i]->d_name, '.');
    if (end && strcmp(end, ".json") == 0) {
      *end = 0;
      text_add(&list, "%s%s", list.size ? ", " : "", found[i]->d_name);
      name_consider(&search, found[i]->d_name);
    }
  }
  diag_error(d, DIAG_COMMAND_LINE, "--machine: there is no description of '%s' in %s%s%s", name, folder,
             list.size ? "; it has " : "", text_c_string(&list));
  if (search.best) diag_hint(d, "did you mean '%s'?", search.best);
  for (int i = 0; i < n; i++) free(found[i]);
  if (n >= 0) free(found);
  text_free(&list);
  return false;
}

bool machine_is_file(const char *name) {
  size_t length = strlen(name);
  return strchr(name, '/') || (length > 5 && strcmp(name + length - 5, ".json") == 0);
}

bool machine_read(Diagnostics *d, const char *name, Machine *machine) {
  Reader r = {.d = d, .ok = true};
  bool is_file = machine_is_file(name);
  char *folder = machines_folder(), *inside = text_format("%s/%s.json", folder, name),
       *path = is_file ? copy_string(name) : inside;
  if (!is_file && access(path, R_OK) != 0) {
    r.ok = unknown_machine(d, name, folder);
  } else {
    JsonDocument *document = open_json(&r, path, "--machine");
    r.ok = document && check_format(&r, json_root(document), "nnc-machine 1");
    *machine = (Machine){0};
    if (r.ok) read_machine(&r, json_root(document), machine);
    if (document) json_destroy(document);
  }
  if (path != inside) free(path);
  free(inside);
  free(folder);
  return r.ok;
}

// --- Measured times

static void read_entry(Reader *r, const JsonValue *v, CostTable *table) {
  if (v->type != JSON_OBJECT) {
    r->ok = diag_error(r->d, at(r, v), "expected an object with 'key' and 'seconds', found %s",
                       json_type_name(v->type));
    return;
  }
  const JsonValue *key = json_get(v, "key");
  double seconds = number(r, v, "seconds", 0, false);
  if (!key || key->type != JSON_STRING || key->length == 0 || strlen(key->string) != key->length)
    r->ok = diag_error(r->d, at(r, v), "'key' must be a string that is not empty");
  else cost_table_add(table, key->string, seconds, v->line);
}

static void read_costs(Reader *r, const JsonValue *root, const char *wanted, CostFile *file) {
  const JsonValue *target = json_get(root, "target");
  if (target && (target->type != JSON_STRING || strcmp(target->string, wanted) != 0)) {
    r->ok = diag_error(r->d, at(r, target), "these times are of the target '%s', not of '%s'",
                       target->type == JSON_STRING ? target->string : "?", wanted);
    return;
  }
  const JsonValue *model = json_get(root, "model"), *threads = json_get(root, "threads"),
                  *costs = json_get(root, "costs");
  if (!model || model->type != JSON_STRING) {
    r->ok = diag_error(r->d, at(r, model ? model : root), "'model' must be the name of the model that was measured");
    return;
  }
  file->model = copy_string(model->string);
  file->model_line = model->line;
  file->model_column = model->column;
  if (!costs || costs->type != JSON_ARRAY) {
    r->ok = diag_error(r->d, at(r, costs ? costs : root), "'costs' must be an array");
    return;
  }
  for (const JsonValue *v = costs->first; v && !diag_is_full(r->d); v = v->next) read_entry(r, v, &file->table);
  if (r->ok && file->table.n == 0) r->ok = diag_error(r->d, at(r, costs), "no times in this file");
  const CostEntry *twice = cost_table_sort(&file->table);
  if (twice)
    r->ok = diag_error(r->d, (AstPos){.source = r->source, .line = twice->place, .column = 1}, "'%s' has two times",
                       twice->key);
  int here = nnc_library_threads();
  if (r->ok && !strcmp(wanted, "host") && threads && threads->type == JSON_NUMBER && threads->number != here)
    diag_warning(r->d, at(r, threads), "measured on %g threads; this program will use %d", threads->number, here);
}

bool cost_file_read(Diagnostics *d, const char *path, const char *target, CostFile *file) {
  Reader r = {.d = d, .ok = true};
  *file = (CostFile){.path = path};
  JsonDocument *document = open_json(&r, path, "--costs");
  r.ok = document && check_format(&r, json_root(document), "nnc-costs 1");
  file->source = r.source;
  if (r.ok) read_costs(&r, json_root(document), target, file);
  if (document) json_destroy(document);
  return r.ok;
}

void cost_file_free(CostFile *file) {
  cost_table_free(&file->table);
  free(file->model);
  *file = (CostFile){0};
}

bool cost_file_match(Diagnostics *d, const CodegenTarget *target, CostFile *file, MlirModule module) {
  AstPos pos = place(file->source, file->model_line, file->model_column);
  MlirStringRef name = mlirStringAttrGetValue(
      mlirOperationGetAttributeByName(mlirModuleGetOperation(module), mlirStringRefCreateFromCString(ATTR_model)));
  if (!mlirStringRefEqual(name, mlirStringRefCreateFromCString(file->model)))
    return diag_error(d, pos, "these times are of the model '%s', not of '%.*s'", file->model, (int)name.length,
                      name.data);
  int n, matched = codegen_target_match_costs(target, &file->table, module, &n);
  if (matched == 0 && n > 0) {
    diag_error(d, pos,
               "none of these times is of a kernel of this program: the model, its sizes or the compiler have changed "
               "since");
    diag_hint(d, "measure again: %.*s bench --costs=%s", (int)name.length, name.data, file->path);
    return false;
  }
  if (matched < n)
    diag_warning(d, pos, "%d of %d steps have no time in this file; theirs are predicted from the others", n - matched,
                 n);
  return true;
}
