// `import`: a weight file of others, brought into the names and layouts of this model.
#include <getopt.h>
#include <stdlib.h>

#include "runtime/comm/comm.h"
#include "runtime/options.h"
#include "runtime/runtime.h"
#include "runtime/training.h"

typedef struct ImportOptions {
  const char *input, *map, *output, *far;
  int64_t seed;
} ImportOptions;

static const Option options[] = {
    OPTION(ImportOptions, map, "map", "FILE", TEXT,
           "which of their tensors makes up which of the model's (default: the names are the same)"),
    OPTION(ImportOptions, output, "output", "FILE", TEXT, "weight file to write (default {model}.safetensors)"),
    OPTION_OF_FAR(ImportOptions, far),
    OPTION(ImportOptions, seed, "seed", "S", INTEGER,
           "of what a `new` rule of the mapping lets begin anew (default {seed})"),
};
static const Command command =
    {.usage = "[OPTION]... FILE",
     .before = "Reads weights from the safetensors file FILE and writes them as weights of this model. All shapes are "
               "compared\nfirst; every tensor that differs is listed, and nothing is written.",
     OPTIONS(options)};

static int parse_options(int argc, char **argv, ImportOptions *o) {
  int status = options_parse(&command, argc, argv, o);
  if (status >= 0) return status;
  if (optind + 1 != argc) {
    report_error(optind < argc ? "one weight file expected, not %d" : "no weight file", argc - optind);
    return options_misused(argv[0], NULL);
  }
  o->input = argv[optind];
  return -1;
}

int cmd_import(int argc, char **argv) {
  ImportOptions o = {.seed = nnc_program.seed};
  int status = parse_options(argc, argv, &o);
  if (status >= 0) return status;
  char *path = o.output ? xstrdup(o.output) : checkpoint_default_path();
  Arena arena = {0};
  WeightMap *map = NULL;
  CheckpointLock lock = {0};
  bool ok = ranks_are_whole("import", false) && output_path_check(path) && output_spares(path, o.input) &&
            output_spares(path, o.map) && checkpoint_lock(path, &lock) &&
            (o.output || checkpoint_may_replace(path, true, "--output")) &&
            (!o.map || (map = weight_map_read(o.map))) && program_verify() &&
            arena_create(&arena, nnc_program.persistent_bytes, 0) &&
            arena_open_far(&arena, nnc_program.far_persistent_bytes, 0, o.far);
  ok = ok && weight_map_import(o.input, map, (uint64_t)o.seed, &arena) && weights_save(path, &arena);
  checkpoint_unlock(&lock);
  arena_destroy(&arena);
  weight_map_free(map);
  free(path);
  return ok ? EXIT_DONE : EXIT_DIAGNOSTIC;
}
