// problem_io.c: problems and schedules as JSON.
#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "solver.h"
#include "support/alloc.h"
#include "support/input_error.h"
#include "support/json.h"

// A problem read from a file, in one piece: `problem` comes first, so that a pointer to it is a pointer to this.
typedef struct OwnedProblem {
  RematProblem problem;
  RematNode *nodes;   // Owned
  int *inputs;        // Owned; all input lists, one after the other
  int *outputs;       // Owned
  RematAnti *anti;    // Owned
  RematTier far;
  JsonDocument *document;   // Owned; the names live in it
  int64_t total_bytes;      // so far, to refuse sums that would overflow at the number that does it
  double total_cost;
} OwnedProblem;

static bool fail_type(const JsonValue *value, const char *what, const char *expected, InputError *error) {
  return input_fail_at(error, value->line, value->column, "%s must be %s, not %s", what, expected,
                       json_type_name(value->type));
}

static bool check_members(const JsonValue *object, InputError *error) {
  const JsonValue *repeat = json_find_repeat(object);
  if (!repeat) return true;
  return input_fail_at(error, repeat->line, repeat->column, "\"%.60s\" is given twice", repeat->key);
}

// Each of these leaves *result alone when the member is missing.
static bool read_bytes(const JsonValue *object, const char *key, int64_t *result, InputError *error) {
  const JsonValue *value = json_get(object, key);
  if (!value) return true;
  if (value->type != JSON_NUMBER) return fail_type(value, key, "a number of bytes", error);
  // Generators often print bytes as 4096.0 or 4.096e3; such a number is taken when it is exactly an integer.
  if (!value->is_integer && value->number >= 0 && value->number < 9007199254740992.0 &&
      value->number == (double)(int64_t)value->number) {
    *result = (int64_t)value->number;
    return true;
  }
  if (!value->is_integer)
    return input_fail_at(error, value->line, value->column, "%s must be an integer of at most 63 bits", key);
  if (value->integer < 0) return input_fail_at(error, value->line, value->column, "%s must be >= 0", key);
  *result = value->integer;
  return true;
}

// The same, added to the total; the limit is that of remat_problem_check.
static bool read_added_bytes(OwnedProblem *owned, const JsonValue *object, const char *key, int64_t *result,
                             InputError *error) {
  if (!read_bytes(object, key, result, error)) return false;
  const JsonValue *value = json_get(object, key);
  if (value && *result > INT64_MAX / 4 - owned->total_bytes)
    return input_fail_at(error, value->line, value->column, "the sum of all bytes is too large");
  owned->total_bytes += *result;
  return true;
}

static bool read_boolean(const JsonValue *object, const char *key, bool *result, InputError *error) {
  const JsonValue *value = json_get(object, key);
  if (!value) return true;
  if (value->type != JSON_BOOLEAN) return fail_type(value, key, "true or false", error);
  *result = value->boolean;
  return true;
}

// A string that must be one of `names` (ended by NULL); *result is its place in the list.
static bool read_choice(const JsonValue *object, const char *key, const char *const *names, int *result,
                        InputError *error) {
  const JsonValue *value = json_get(object, key);
  if (!value) return true;
  if (value->type != JSON_STRING) return fail_type(value, key, "a string", error);
  for (int i = 0; names[i]; i++)
    if (strcmp(value->string, names[i]) == 0) {
      *result = i;
      return true;
    }
  return input_fail_at(error, value->line, value->column, "unknown %s '%.60s'", key, value->string);
}

static bool read_node_number(const JsonValue *value, int64_t limit, const char *what, int *result, InputError *error) {
  if (value->type != JSON_NUMBER) return fail_type(value, what, "a node number", error);
  if (!value->is_integer || value->integer < 0 || value->integer >= limit)
    return input_fail_at(error, value->line, value->column, "%s: no such node", what);
  *result = (int)value->integer;
  return true;
}

static const JsonValue *get_array(const JsonValue *object, const char *key, bool *valid, InputError *error) {
  const JsonValue *value = json_get(object, key);
  if (value && value->type != JSON_ARRAY) {
    *valid = fail_type(value, key, "an array", error);
    return NULL;
  }
  return value;
}

static bool read_inputs(OwnedProblem *owned, RematNode *node, const JsonValue *object, int number, int *used,
                        InputError *error) {
  bool valid = true;
  const JsonValue *inputs = get_array(object, "inputs", &valid, error);
  node->inputs = owned->inputs + *used;
  for (const JsonValue *item = inputs ? inputs->first : NULL; item; item = item->next) {
    int input = 0;
    if (!read_node_number(item, owned->problem.n_nodes, "input", &input, error)) return false;
    if (input >= number)
      return input_fail_at(error, item->line, item->column,
                           "input %d of node %d comes later: a cycle, or not an execution order", input, number);
    owned->inputs[(*used)++] = input;
    node->n_inputs++;
  }
  return valid;
}

// A time or a rate; left alone when the member is missing.
static bool read_number(const JsonValue *object, const char *key, double *result, InputError *error) {
  const JsonValue *value = json_get(object, key);
  if (!value) return true;
  if (value->type != JSON_NUMBER) return fail_type(value, key, "a number", error);
  if (value->number < 0) return input_fail_at(error, value->line, value->column, "%s must be >= 0", key);
  *result = value->number;
  return true;
}

static bool read_far(OwnedProblem *owned, const JsonValue *root, InputError *error) {
  const JsonValue *far = json_get(root, "far");
  if (!far) return true;
  if (far->type != JSON_OBJECT) return fail_type(far, "far", "an object", error);
  if (!check_members(far, error)) return false;
  static const char *const required[] = {"out_rate", "in_rate", "budget"};
  for (size_t i = 0; i < sizeof required / sizeof *required; i++)
    if (!json_get(far, required[i]))
      return input_fail_at(error, far->line, far->column, "\"far\" lacks \"%s\"", required[i]);
  owned->problem.far = &owned->far;
  return read_number(far, "out_rate", &owned->far.out_rate, error) &&
         read_number(far, "in_rate", &owned->far.in_rate, error) &&
         read_number(far, "latency", &owned->far.latency, error) && read_number(far, "drag", &owned->far.drag, error) &&
         read_bytes(far, "workspace", &owned->far.workspace, error) &&
         read_bytes(far, "budget", &owned->far.budget, error);
}

static bool read_cost(OwnedProblem *owned, const JsonValue *value, double *result, InputError *error) {
  if (value->type != JSON_NUMBER) return fail_type(value, "cost", "a number", error);
  if (value->number < 0) return input_fail_at(error, value->line, value->column, "cost must be >= 0");
  *result = value->number;
  owned->total_cost += value->number;
  if (owned->total_cost > DBL_MAX)
    return input_fail_at(error, value->line, value->column, "the sum of all costs is too large");
  return true;
}

// Nodes are known by their place. An "id" may say so too, for the reader; another number would mean that the inputs
// are meant differently. Text serves as a second name.
static bool check_id(const JsonValue *object, int number, InputError *error) {
  const JsonValue *id = json_get(object, "id");
  if (!id || id->type == JSON_STRING) return true;
  if (id->type != JSON_NUMBER) return fail_type(id, "id", "a number or a string", error);
  if (id->is_integer && id->integer == number) return true;
  if (id->is_integer && id->integer >= 0 && id->integer < number)
    return input_fail_at(error, id->line, id->column, "duplicate id %d: it is that of an earlier node",
                         (int)id->integer);
  return input_fail_at(error, id->line, id->column, "the id of node %d must be %d: nodes are numbered by their place",
                       number, number);
}

static int compare_ids(const void *left, const void *right) {
  const JsonValue *a = *(const JsonValue *const *)left, *b = *(const JsonValue *const *)right;
  int order = strcmp(a->string, b->string);
  if (order != 0) return order;
  return a->line != b->line ? a->line - b->line : a->column - b->column;
}

static bool check_text_ids(const JsonValue *nodes, InputError *error) {
  const JsonValue **ids = allocate_array((size_t)nodes->n, sizeof *ids);
  int n = 0;
  bool valid = true;
  for (const JsonValue *node = nodes->first; node; node = node->next) {
    const JsonValue *id = json_get(node, "id");
    if (id && id->type == JSON_STRING) ids[n++] = id;
  }
  qsort(ids, (size_t)n, sizeof *ids, compare_ids);
  for (int i = 1; i < n && valid; i++)
    if (strcmp(ids[i - 1]->string, ids[i]->string) == 0)
      valid = input_fail_at(error, ids[i]->line, ids[i]->column, "duplicate id '%.60s'", ids[i]->string);
  free(ids);
  return valid;
}

static bool read_node(OwnedProblem *owned, const JsonValue *object, int number, int *used, InputError *error) {
  static const char *const roles[] = {"forward", "backward", "update", NULL};
  static const char *const classes[] = {"cheap", "expensive", NULL};
  if (object->type != JSON_OBJECT) return fail_type(object, "a node", "an object", error);
  if (!check_members(object, error) || !check_id(object, number, error)) return false;
  RematNode *node = &owned->nodes[number];
  int role = REMAT_FORWARD, cost_class = REMAT_CHEAP;
  const JsonValue *name = json_get(object, "name"), *cost = json_get(object, "cost");
  if (name && name->type != JSON_STRING) return fail_type(name, "name", "a string", error);
  node->name = name ? name->string : NULL;
  if (!cost || !json_get(object, "bytes"))
    return input_fail_at(error, object->line, object->column, "node %d lacks \"%s\"", number, cost ? "bytes" : "cost");
  if (!read_cost(owned, cost, &node->cost, error)) return false;
  if (!read_choice(object, "role", roles, &role, error)) return false;
  if (!read_choice(object, "class", classes, &cost_class, error)) return false;
  node->role = (RematRole)role;
  node->cost_class = (RematCostClass)cost_class;
  if (!read_boolean(object, "movable", &node->movable, error) || !read_boolean(object, "home", &node->home, error))
    return false;
  const JsonValue *update = json_get(object, "updated_by");
  if (update && !read_node_number(update, owned->problem.n_nodes, "updated_by", &node->updated_by, error)) return false;
  node->recomputable = node->role != REMAT_UPDATE && !node->home;
  const JsonValue *recomputable = json_get(object, "recomputable");
  if (!read_boolean(object, "recomputable", &node->recomputable, error)) return false;
  if (node->role == REMAT_UPDATE && node->recomputable)
    return input_fail_at(error, recomputable->line, recomputable->column, "an update must not be recomputable");
  return read_added_bytes(owned, object, "bytes", &node->bytes, error) &&
         read_added_bytes(owned, object, "workspace", &node->workspace, error) &&
         read_boolean(object, "checkpoint", &node->checkpoint, error) &&
         read_inputs(owned, node, object, number, used, error);
}

static bool read_nodes(OwnedProblem *owned, const JsonValue *nodes, InputError *error) {
  size_t total = 0;
  for (const JsonValue *node = nodes->first; node; node = node->next) {
    const JsonValue *inputs = json_get(node, "inputs");
    total += inputs ? (size_t)inputs->n : 0;
  }
  owned->nodes = allocate_array((size_t)nodes->n, sizeof *owned->nodes);
  owned->inputs = allocate_array(total, sizeof *owned->inputs);
  owned->problem.nodes = owned->nodes;
  owned->problem.n_nodes = nodes->n;
  int number = 0, used = 0;
  for (const JsonValue *node = nodes->first; node; node = node->next)
    if (!read_node(owned, node, number++, &used, error)) return false;
  return check_text_ids(nodes, error);
}

static bool read_outputs(OwnedProblem *owned, const JsonValue *root, InputError *error) {
  bool valid = true;
  const JsonValue *outputs = get_array(root, "outputs", &valid, error);
  if (!outputs) return valid;
  owned->outputs = allocate_array((size_t)outputs->n, sizeof *owned->outputs);
  owned->problem.outputs = owned->outputs;
  for (const JsonValue *item = outputs->first; item; item = item->next)
    if (!read_node_number(item, owned->problem.n_nodes, "output", &owned->outputs[owned->problem.n_outputs++], error))
      return false;
  return true;
}

static bool read_anti(OwnedProblem *owned, const JsonValue *root, InputError *error) {
  bool valid = true;
  const JsonValue *anti = get_array(root, "anti", &valid, error);
  if (!anti) return valid;
  owned->anti = allocate_array((size_t)anti->n, sizeof *owned->anti);
  owned->problem.anti = owned->anti;
  for (const JsonValue *item = anti->first; item; item = item->next) {
    RematAnti *pair = &owned->anti[owned->problem.n_anti++];
    if (item->type != JSON_ARRAY || item->n != 2)
      return input_fail_at(error, item->line, item->column, "an anti-dependence must be [before, after]");
    if (!read_node_number(item->first, owned->problem.n_nodes, "anti-dependence", &pair->before, error) ||
        !read_node_number(item->first->next, owned->problem.n_nodes, "anti-dependence", &pair->after, error))
      return false;
    if (pair->before >= pair->after)
      return input_fail_at(error, item->line, item->column, "node %d comes before node %d in the given order",
                           pair->after, pair->before);
    if (owned->nodes[pair->after].recomputable)
      return input_fail_at(error, item->line, item->column, "node %d overwrites, so it must not be recomputable",
                           pair->after);
  }
  return true;
}

static bool read_problem(OwnedProblem *owned, const JsonValue *root, InputError *error) {
  if (root->type != JSON_OBJECT) return fail_type(root, "the problem", "an object", error);
  if (!check_members(root, error)) return false;
  const JsonValue *nodes = json_get(root, "nodes");
  if (!nodes) return input_fail_at(error, root->line, root->column, "the problem lacks \"nodes\"");
  if (nodes->type != JSON_ARRAY) return fail_type(nodes, "nodes", "an array", error);
  return read_added_bytes(owned, root, "fixed_bytes", &owned->problem.fixed_bytes, error) &&
         read_far(owned, root, error) && read_nodes(owned, nodes, error) && read_outputs(owned, root, error) &&
         read_anti(owned, root, error) && remat_problem_check(&owned->problem, error);
}

RematProblem *remat_problem_read(const char *text, size_t length, InputError *error) {
  JsonDocument *document = json_parse(text, length, error);
  if (!document) return NULL;
  OwnedProblem *owned = allocate_array(1, sizeof *owned);
  owned->document = document;
  if (read_problem(owned, json_root(document), error)) return &owned->problem;
  remat_problem_destroy(&owned->problem);
  return NULL;
}

void remat_problem_destroy(RematProblem *problem) {
  OwnedProblem *owned = (OwnedProblem *)problem;
  if (!owned) return;
  free(owned->nodes);
  free(owned->inputs);
  free(owned->outputs);
  free(owned->anti);
  json_destroy(owned->document);
  free(owned);
}

static void write_node(FILE *file, const RematNode *node) {
  static const char *const roles[] = {"forward", "backward", "update"};
  fprintf(file, "    {\"name\":");
  json_write_string(file, node->name ? node->name : "");
  fprintf(file, ",\"cost\":%.17g,\"bytes\":%lld,\"workspace\":%lld,\"inputs\":[", node->cost, (long long)node->bytes,
          (long long)node->workspace);
  for (int i = 0; i < node->n_inputs; i++) fprintf(file, "%s%d", i ? "," : "", node->inputs[i]);
  fprintf(file, "],\"role\":\"%s\",\"recomputable\":%s", roles[node->role], node->recomputable ? "true" : "false");
  if (node->cost_class == REMAT_EXPENSIVE) fprintf(file, ",\"class\":\"expensive\"");
  if (node->checkpoint) fprintf(file, ",\"checkpoint\":true");
  if (node->movable) fprintf(file, ",\"movable\":true");
  if (node->home) fprintf(file, ",\"home\":true");
  if (node->home && node->updated_by) fprintf(file, ",\"updated_by\":%d", node->updated_by);
  fputc('}', file);
}

void remat_problem_write(FILE *file, const RematProblem *problem) {
  fprintf(file, "{\n  \"fixed_bytes\":%lld,\n", (long long)problem->fixed_bytes);
  const RematTier *far = problem->far;
  if (far)
    fprintf(file,
            "  \"far\":{\"out_rate\":%.17g,\"in_rate\":%.17g,\"latency\":%.17g,\"drag\":%.17g,\"workspace\":%lld,"
            "\"budget\":%lld},\n",
            far->out_rate, far->in_rate, far->latency, far->drag, (long long)far->workspace, (long long)far->budget);
  fprintf(file, "  \"nodes\":[\n");
  for (int v = 0; v < problem->n_nodes; v++) {
    write_node(file, &problem->nodes[v]);
    fputs(v + 1 < problem->n_nodes ? ",\n" : "\n", file);
  }
  fprintf(file, "  ],\n  \"outputs\":[");
  for (int i = 0; i < problem->n_outputs; i++) fprintf(file, "%s%d", i ? "," : "", problem->outputs[i]);
  fprintf(file, "],\n  \"anti\":[");
  for (int i = 0; i < problem->n_anti; i++)
    fprintf(file, "%s[%d,%d]", i ? "," : "", problem->anti[i].before, problem->anti[i].after);
  fprintf(file, "]\n}\n");
}

// As members of a step, by RematItemKind.
static const char *const item_keys[] = {"execute", "store", "fetch", "far_home", NULL};

// Whether the item makes a near copy, which is then freed.
static bool makes_near(const RematProblem *problem, int item) {
  RematItemKind kind = remat_item_kind(problem, item);
  return kind == REMAT_EXECUTE || kind == REMAT_FETCH;
}

// The near copies freed after each position, as lists linked through `next`, in the order in which they were made.
typedef struct Frees {
  int *first;   // Owned; per position, what made the copy freed first, or -1
  int *next;    // Owned; per item
} Frees;

static Frees list_frees(const RematProblem *problem, const RematSimulation *simulation, const int *exec, int n) {
  Frees frees = {allocate_array((size_t)n, sizeof(int)), allocate_array((size_t)n, sizeof(int))};
  for (int p = 0; p < n; p++) frees.first[p] = -1;
  for (int p = n - 1; p >= 0; p--) {
    int last = simulation->last_use[p];
    if (last >= n || !makes_near(problem, exec[p])) continue;
    frees.next[p] = frees.first[last];
    frees.first[last] = p;
  }
  return frees;
}

static void frees_free(Frees *frees) {
  free(frees->first);
  free(frees->next);
}

void remat_schedule_write(FILE *file, const RematProblem *problem, const RematSchedule *schedule) {
  RematSimulation simulation;
  if (!remat_simulate(problem, schedule->exec, schedule->n, &simulation, NULL)) return;
  Frees frees = list_frees(problem, &simulation, schedule->exec, schedule->n);
  fprintf(file, "{\n  \"cost\":%.17g,\n  \"peak\":%lld,\n", simulation.cost, (long long)simulation.peak);
  if (problem->far)
    fprintf(file, "  \"makespan\":%.17g,\n  \"far_peak\":%lld,\n", simulation.makespan, (long long)simulation.far_peak);
  fprintf(file, "  \"steps\":[");
  for (int p = 0; p < schedule->n; p++) {
    int item = schedule->exec[p];
    fprintf(file, "%s\n    {\"%s\":%d}", p ? "," : "", item_keys[remat_item_kind(problem, item)],
            remat_item_node(problem, item));
    for (int q = frees.first[p]; q >= 0; q = frees.next[q])
      fprintf(file, ",{\"free\":%d}", remat_item_node(problem, schedule->exec[q]));
  }
  fprintf(file, "\n  ]\n}\n");
  frees_free(&frees);
  remat_simulation_free(&simulation);
}

// Checks that the frees in `steps` are exactly those the executions imply: after a step's last use and before the next
// execution, in any order among themselves.
static bool check_frees(const JsonValue *steps, const RematProblem *problem, const RematSchedule *schedule,
                        const RematSimulation *simulation, InputError *error) {
  // position after which a value is freed, plus one
  int *due = allocate_array((size_t)problem->n_nodes, sizeof *due);
  int *latest = allocate_array((size_t)problem->n_nodes, sizeof *latest);
  int position = -1, freed = 0, expected = 0;
  bool valid = true;
  for (int p = 0; p < schedule->n; p++)
    expected += simulation->last_use[p] < schedule->n && makes_near(problem, schedule->exec[p]);
  for (const JsonValue *step = steps->first; step && valid; step = step->next) {
    const JsonValue *value = json_get(step, "free");
    int v = 0;
    if (!value) {
      v = remat_item_node(problem, schedule->exec[++position]);
      if (!makes_near(problem, schedule->exec[position])) continue;
      due[v] = simulation->last_use[position] + 1;
      latest[v] = position + 1;
      continue;
    }
    valid = read_node_number(value, problem->n_nodes, "free", &v, error);
    if (valid && (!latest[v] || due[v] != position + 1))
      valid = input_fail_at(error, step->line, step->column, "value %d is freed too early, too late or twice", v);
    latest[v] = 0;
    freed++;
  }
  if (valid && freed != expected)
    valid = input_fail_at(error, steps->line, steps->column, "%d values are never freed", expected - freed);
  free(due);
  free(latest);
  return valid;
}

static bool check_recorded(const JsonValue *root, const RematSimulation *simulation, InputError *error) {
  const JsonValue *cost = json_get(root, "cost"), *peak = json_get(root, "peak");
  if (peak && (peak->type != JSON_NUMBER || !peak->is_integer || peak->integer != simulation->peak))
    return input_fail_at(error, peak->line, peak->column, "the recorded peak differs from the true %lld",
                         (long long)simulation->peak);
  double difference = cost ? cost->number - simulation->cost : 0, tolerance = 1e-9 * simulation->cost;
  if (cost && (cost->type != JSON_NUMBER || difference > tolerance || difference < -tolerance))
    return input_fail_at(error, cost->line, cost->column, "the recorded cost differs from the true %.17g",
                         simulation->cost);
  const JsonValue *far_peak = json_get(root, "far_peak"), *makespan = json_get(root, "makespan");
  if (far_peak && (far_peak->type != JSON_NUMBER || !far_peak->is_integer || far_peak->integer != simulation->far_peak))
    return input_fail_at(error, far_peak->line, far_peak->column, "the recorded far_peak differs from the true %lld",
                         (long long)simulation->far_peak);
  difference = makespan ? makespan->number - simulation->makespan : 0, tolerance = 1e-9 * simulation->makespan;
  if (makespan && (makespan->type != JSON_NUMBER || difference > tolerance || difference < -tolerance))
    return input_fail_at(error, makespan->line, makespan->column, "the recorded makespan differs from the true %.17g",
                         simulation->makespan);
  return true;
}

// Reads a step that is no free. A step without any of item_keys is the caller's to report.
static bool read_item(const JsonValue *step, const RematProblem *problem, RematSchedule *schedule, InputError *error) {
  int kinds = problem->far ? REMAT_FAR_HOME + 1 : 1;
  for (int kind = REMAT_EXECUTE; kind < kinds; kind++) {
    const JsonValue *value = json_get(step, item_keys[kind]);
    int node = 0;
    if (!value) continue;
    if (!read_node_number(value, problem->n_nodes, item_keys[kind], &node, error)) return false;
    schedule->exec[schedule->n++] = remat_item(problem, (RematItemKind)kind, node);
  }
  return true;
}

// How many of item_keys a step has, "free" included.
static int count_kinds(const JsonValue *step, bool has_far) {
  int count = json_get(step, "free") != NULL;
  for (int kind = REMAT_EXECUTE; kind < (has_far ? REMAT_FAR_HOME + 1 : 1); kind++)
    count += json_get(step, item_keys[kind]) != NULL;
  return count;
}

static bool read_steps(const JsonValue *root, const RematProblem *problem, RematSchedule *schedule, InputError *error) {
  const JsonValue *steps = json_get(root, "steps");
  if (!check_members(root, error)) return false;
  if (!steps || steps->type != JSON_ARRAY)
    return input_fail_at(error, root->line, root->column, "the schedule lacks the array \"steps\"");
  schedule->exec = allocate_array((size_t)steps->n, sizeof(int));
  for (const JsonValue *step = steps->first; step; step = step->next) {
    if (!check_members(step, error)) return false;
    int kinds = count_kinds(step, problem->far != NULL);
    if (kinds == 0)
      return input_fail_at(error, step->line, step->column,
                           problem->far ? "a step must execute, store, fetch, free or be a far_home"
                                        : "a step must be {\"execute\":n} or {\"free\":n}");
    if (kinds > 1)
      return input_fail_at(error, step->line, step->column,
                           json_get(step, "execute") && json_get(step, "free") ? "a step must not both execute and free"
                                                                               : "a step must be one thing");
    if (!read_item(step, problem, schedule, error)) return false;
  }
  RematSimulation simulation;
  if (!remat_simulate(problem, schedule->exec, schedule->n, &simulation, error)) return false;
  schedule->cost = simulation.cost;
  schedule->peak = simulation.peak;
  schedule->far_peak = simulation.far_peak;
  schedule->makespan = simulation.makespan;
  bool valid = check_frees(steps, problem, schedule, &simulation, error) && check_recorded(root, &simulation, error);
  remat_simulation_free(&simulation);
  return valid;
}

bool remat_schedule_read(const char *text, size_t length, const RematProblem *problem, RematSchedule *schedule,
                         InputError *error) {
  *schedule = (RematSchedule){0};
  JsonDocument *document = json_parse(text, length, error);
  if (!document) return false;
  bool valid = read_steps(json_root(document), problem, schedule, error);
  json_destroy(document);
  if (!valid) remat_schedule_free(schedule);
  return valid;
}
