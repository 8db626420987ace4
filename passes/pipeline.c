// The pass table and the pipeline: textual pipelines ("simplify,remat{budget=512MiB}") are parsed against the table,
// then run pass by pass, with verification at the end of each stage, or after each pass, so that a module that breaks
// names the pass that broke it.
#include "passes/passes.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/alloc.h"
#include "support/bytes.h"
#include "support/clock.h"
#include "support/text.h"

enum { NN_STEP, NN_STAGE };
const NnPassInfo nn_passes[] = {
#define NN_PASS(pass, extent, pass_options, text) \
  {.name = #pass, .doc = text, .options = pass_options, .fn = nn_pass_##pass, .ends_stage = NN_##extent},
#include "passes/passes.def"
#undef NN_PASS
};
const int nn_n_passes = sizeof nn_passes / sizeof *nn_passes;

static const NnPassInfo *find_pass(const char *name, size_t length) {
  for (int i = 0; i < nn_n_passes; i++)
    if (strlen(nn_passes[i].name) == length && memcmp(nn_passes[i].name, name, length) == 0) return &nn_passes[i];
  return NULL;
}

// ---------------------------------------------------------------------------------------------------------------------
// Options against the row's description: "policy=none|sqrt budget=SIZE|PERCENT% seed=N time-limit=S"

static bool is_count(const char *value) {
  char *end;
  errno = 0;
  strtoull(value, &end, 10);
  return isdigit((unsigned char)*value) && *end == 0 && errno == 0;
}

static bool is_seconds(const char *value) {
  char *end;
  double number = strtod(value, &end);
  return end != value && *end == 0 && number > 0 && number <= 1e9;
}

static bool fits_alternative(const char *value, const char *alternative, size_t length) {
  int64_t bytes;
  double percent = 0;
  if (length == 4 && memcmp(alternative, "SIZE", 4) == 0) return parse_bytes(value, &bytes, &percent) && percent == 0;
  if (length == 8 && memcmp(alternative, "PERCENT%", 8) == 0)
    return parse_bytes(value, &bytes, &percent) && percent > 0;
  if (length == 1 && *alternative == 'N') return is_count(value);
  if (length == 1 && *alternative == 'S') return is_seconds(value);
  return strlen(value) == length && memcmp(value, alternative, length) == 0;
}

static bool check_option(const NnPassInfo *info, const NnPassOption *option, char *error) {
  size_t key = strlen(option->key);
  for (const char *s = info->options; *s; s += strcspn(s, " "), s += *s == ' ') {
    if (strncmp(s, option->key, key) != 0 || s[key] != '=') continue;
    const char *values = s + key + 1;
    size_t length = strcspn(values, " ");
    for (const char *v = values; v < values + length; v += strcspn(v, "| "), v++)
      if (fits_alternative(option->value, v, strcspn(v, "| "))) return true;
    snprintf(error, NN_ERROR_SIZE, "option '%s' of pass '%s' takes %.*s, found '%s'", option->key, info->name,
             (int)length, values, option->value);
    return false;
  }
  if (*info->options)
    snprintf(error, NN_ERROR_SIZE, "pass '%s' has no option '%s'; it takes %s", info->name, option->key, info->options);
  else snprintf(error, NN_ERROR_SIZE, "pass '%s' takes no options, found '%s'", info->name, option->key);
  return false;
}

// ---------------------------------------------------------------------------------------------------------------------
// The textual pipeline:  pipeline = [ pass { "," pass } ] ;  pass = name [ "{" { key "=" value } "}" ]

static const char *skip_blanks(const char *s) { return s + strspn(s, " \t\n"); }

// At the character after "{"; returns the one after "}", or NULL with an error.
static const char *parse_options(const char *s, NnPassRun *run, char *error) {
  for (;;) {
    s = skip_blanks(s);
    if (*s == '}') return s + 1;
    size_t key = strcspn(s, "= \t\n,{}");
    if (key == 0 || s[key] != '=') {
      snprintf(error, NN_ERROR_SIZE, "expected 'key=value' or '}' in the options of pass '%s'%s%.20s", run->info->name,
               *s ? ", found " : "", s);
      return NULL;
    }
    const char *value = s + key + 1;
    size_t length = strcspn(value, " \t\n{}");
    NnPassOption option = {text_format("%.*s", (int)key, s), text_format("%.*s", (int)length, value)};
    bool twice = nn_pass_option(run, option.key, NULL) != NULL;
    *ARRAY_ADD(run->options, run->n_options) = option;
    if (twice) {
      snprintf(error, NN_ERROR_SIZE, "option '%s' of pass '%s' is given twice", option.key, run->info->name);
      return NULL;
    }
    if (!check_option(run->info, &option, error)) return NULL;
    s = value + length;
  }
}

bool nn_pipeline_parse(const char *text, const NnTarget *target, NnPipeline *out, char *error) {
  *out = (NnPipeline){0};
  const char *s = skip_blanks(text);
  while (*s) {
    size_t length = strcspn(s, ",{}= \t\n");
    const NnPassInfo *info = find_pass(s, length);
    if (!info) {
      if (length) snprintf(error, NN_ERROR_SIZE, "unknown pass '%.*s'", length > 100 ? 100 : (int)length, s);
      else snprintf(error, NN_ERROR_SIZE, "expected the name of a pass, found '%.20s'", s);
      break;
    }
    NnPassRun *run = ARRAY_ADD(out->runs, out->n);
    *run = (NnPassRun){.info = info, .target = target};
    s = skip_blanks(s + length);
    if (*s == '{' && !(s = parse_options(s + 1, run, error))) break;
    s = skip_blanks(s);
    if (*s == 0) return true;
    if (*s != ',') {
      snprintf(error, NN_ERROR_SIZE, "expected ',' after pass '%s', found '%.20s'", info->name, s);
      break;
    }
    s = skip_blanks(s + 1);
    if (*s == 0) snprintf(error, NN_ERROR_SIZE, "expected the name of a pass after the last ','");
  }
  if (out->n == 0 && s && *s == 0) return true;
  nn_pipeline_free(out);
  return false;
}

void nn_pipeline_free(NnPipeline *p) {
  for (int i = 0; i < p->n; i++) {
    for (int k = 0; k < p->runs[i].n_options; k++) {
      free(p->runs[i].options[k].key);
      free(p->runs[i].options[k].value);
    }
    free(p->runs[i].options);
  }
  free(p->runs);
  *p = (NnPipeline){0};
}

// ---------------------------------------------------------------------------------------------------------------------
// Running

static void write_chunk(MlirStringRef text, void *file) { fwrite(text.data, 1, text.length, file); }

static void print_if(const char *wanted, const char *when, const NnPassInfo *info, MlirModule module) {
  if (!wanted || (strcmp(wanted, "all") != 0 && strcmp(wanted, info->name) != 0)) return;
  fprintf(stderr, "// -----// IR %s %s //----- //\n", when, info->name);
  mlirOperationPrint(mlirModuleGetOperation(module), write_chunk, stderr);
  fputc('\n', stderr);
}

static void print_times(const NnPipeline *p, const double *seconds, double verification) {
  double total = verification;
  for (int i = 0; i < p->n; i++) total += seconds[i];
  double scale = total > 0 ? 100 / total : 0;
  fprintf(stderr, "pass              seconds   share\n");
  for (int i = 0; i < p->n; i++)
    fprintf(stderr, "%-14s %10.4f %6.1f%%\n", p->runs[i].info->name, seconds[i], seconds[i] * scale);
  fprintf(stderr, "%-14s %10.4f %6.1f%%\n%-14s %10.4f\n", "(verification)", verification, verification * scale, "total",
          total);
}

bool nn_pipeline_run(const NnPipeline *p, MlirModule module, const NnPipelineHooks *hooks) {
  static const NnPipelineHooks none = {0};
  if (!hooks) hooks = &none;
  double *seconds = allocate_array((size_t)p->n + 1, sizeof *seconds), verification = 0;
  bool ok = true;
  for (int i = 0; i < p->n; i++) {
    const NnPassInfo *info = p->runs[i].info;
    print_if(hooks->print_before, "before", info, module);
    if (hooks->before_pass) hooks->before_pass(hooks->context, info, module);
    double start = seconds_now();
    ok = info->fn(module, &p->runs[i]);
    double done = seconds_now();
    seconds[i] = done - start;
    print_if(hooks->print_after, "after", info, module);
    if (!ok) break;
    if (hooks->verify_never || (!hooks->verify_each && !info->ends_stage && i + 1 < p->n)) continue;
    start = seconds_now();
    if (!nn_verify_module(module)) {
      fprintf(stderr, "internal error: the module does not verify after pass '%s'%s\n", info->name,
              hooks->verify_each ? "" : "; which broke it, --verify-each tells");
      exit(70);
    }
    verification += seconds_now() - start;
  }
  if (hooks->time_passes) print_times(p, seconds, verification);
  free(seconds);
  return ok;
}
