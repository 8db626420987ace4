// `import`: a weight file of others, brought into the names and layouts of this model.
#include <getopt.h>
#include <stdlib.h>

#include "runtime/runtime.h"

typedef struct ImportOptions {
  const char *input, *map, *output;
  int64_t seed;
} ImportOptions;

static void print_help(void) {
  printf("Usage: %s import [OPTION]... FILE\n\n"
         "Reads weights from the safetensors file FILE and writes them as weights of this model. All shapes are "
         "compared\n"
         "first; every tensor that differs is listed, and nothing is written.\n\n"
         "  --map=FILE      which of their tensors makes up which of the model's (default: the names are the same)\n"
         "  --output=FILE   weight file to write (default %s.safetensors)\n"
         "  --seed=S        of what a `new` rule of the mapping lets begin anew (default %lld)\n"
         "      --help\n",
         report_name(), nnc_program.model, (long long)nnc_program.seed);
}

static int parse_options(int argc, char **argv, ImportOptions *o) {
  static const struct option options[] = {
      {"map", required_argument, NULL, 'm'},
      {"output", required_argument, NULL, 'o'},
      {"seed", required_argument, NULL, 's'},
      {"help", no_argument, NULL, 'h'},
      {0},
  };
  bool ok = true;
  for (int c; ok && (c = getopt_long(argc, argv, "", options, NULL)) != -1;) switch (c) {
    case 'm': o->map = optarg; break;
    case 'o': o->output = optarg; break;
    case 's': ok = option_integer("seed", optarg, 0, &o->seed); break;
    case 'h': print_help(); return EXIT_DONE;
    default: ok = false;
    }
  if (ok && optind + 1 != argc) {
    report_error(optind < argc ? "one weight file expected, not %d" : "no weight file", argc - optind);
    ok = false;
  }
  if (ok) o->input = argv[optind];
  return ok ? -1 : option_unknown("import");
}

int cmd_import(int argc, char **argv) {
  ImportOptions o = {.seed = nnc_program.seed};
  int status = parse_options(argc, argv, &o);
  if (status >= 0) return status;
  char *path = o.output ? xstrdup(o.output) : checkpoint_default_path();
  Arena arena = {0};
  WeightMap *map = NULL;
  CheckpointLock lock = {0};
  bool ok = output_path_check(path) && checkpoint_lock(path, &lock) && (!o.map || (map = weight_map_read(o.map))) &&
            program_verify() && arena_create(&arena, nnc_program.persistent_bytes);
  ok = ok && weight_map_import(o.input, map, (uint64_t)o.seed, arena.base) && weights_save(path, arena.base);
  checkpoint_unlock(&lock);
  arena_destroy(&arena);
  weight_map_free(map);
  free(path);
  return ok ? EXIT_DONE : EXIT_DIAGNOSTIC;
}
