// `export`: parameters and states of a checkpoint as a weight file, without optimizer state.
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/comm/comm.h"
#include "runtime/options.h"
#include "runtime/runtime.h"
#include "runtime/training.h"

// dtype: of floats in the file, where typed
typedef struct ExportOptions {
  const char *weights, *output, *map, *far;
  int64_t init;     // seed of initial values, or one of those below
  NncDtype dtype;   // NO_DTYPE: as the model keeps them
} ExportOptions;

enum { NO_INIT = -1, OWN_SEED = -2, NO_DTYPE = -1 };

static const char *parse_dtype(char *text, void *out) {
  static const NncDtype floats[] = {NNC_F32, NNC_F64, NNC_BF16, NNC_F16};
  for (int i = 0; i < 4; i++)
    if (strcmp(text, dtype_name(floats[i])) == 0) {
      *(NncDtype *)out = floats[i];
      return NULL;
    }
  return "bf16, f16, f32 or f64";
}

static const Option options[] = {
    OPTION(ExportOptions, weights, "weights", "FILE", TEXT,
           "checkpoint or weight file to read (default {model}.safetensors)"),
    OPTION(ExportOptions, init, "init", "[=SEED]", INTEGER, "the initial values instead (default seed {seed})",
           .absent = OWN_SEED),
    OPTION(ExportOptions, map, "map", "FILE", TEXT,
           "write the tensors of another program: the mapping file of `import`, the other way round"),
    OPTION(ExportOptions, dtype, "dtype", "TYPE", READ,
           "floats as bf16, f16, f32 or f64, rounded to the nearest (default: as the model keeps them)",
           .read = parse_dtype),
    OPTION_OF_FAR(ExportOptions, far),
};
static const Command command = {.usage = "[OPTION]... FILE", OPTIONS(options)};

static int parse_options(int argc, char **argv, ExportOptions *o) {
  int status = options_parse(&command, argc, argv, o);
  if (status >= 0) return status;
  if (optind + 1 != argc) {
    report_error(optind < argc ? "one output file expected, not %d" : "no output file", argc - optind);
    return options_misused(argv[0], NULL);
  }
  if (o->init == OWN_SEED) o->init = nnc_program.seed;
  o->output = argv[optind];
  return -1;
}

int cmd_export(int argc, char **argv) {
  ExportOptions o = {.init = NO_INIT, .dtype = (NncDtype)NO_DTYPE};
  int status = parse_options(argc, argv, &o);
  if (status >= 0) return status;
  char *path = o.weights ? xstrdup(o.weights) : checkpoint_default_path();
  Arena arena = {0};
  bool typed = (int)o.dtype != NO_DTYPE;
  WeightMap *map = NULL;
  bool ok = ranks_are_whole("export", false) && output_path_check(o.output) && checkpoint_spared(o.output) &&
            (o.init != NO_INIT || output_spares(o.output, path)) && output_spares(o.output, o.map) &&
            (!o.map || (map = weight_map_read(o.map))) && program_verify() &&
            arena_create(&arena, nnc_program.persistent_bytes, 0) &&
            arena_open_far(&arena, nnc_program.far_persistent_bytes, 0, o.far);
  ok = ok && (o.init != NO_INIT ? init_persistent(&arena, (uint64_t)o.init) : weights_load(path, &arena)) &&
       (map || typed ? weight_map_export(o.output, map, typed ? &o.dtype : NULL, &arena)
                     : weights_save(o.output, &arena));
  arena_destroy(&arena);
  weight_map_free(map);
  free(path);
  return ok ? EXIT_DONE : EXIT_DIAGNOSTIC;
}
