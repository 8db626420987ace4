// `export`: parameters and states of a checkpoint as a weight file, without optimizer state.
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/runtime.h"

// dtype: of floats in the file, where typed
typedef struct ExportOptions {
  const char *weights, *output, *map;
  int64_t seed;
  bool init, typed;
  NncDtype dtype;
} ExportOptions;

static void print_help(void) {
  printf("Usage: %s export [OPTION]... FILE\n\n"
         "  --weights=FILE  checkpoint or weight file to read (default %s.safetensors)\n"
         "  --init[=SEED]   the initial values instead (default seed %lld)\n"
         "  --map=FILE      write the tensors of another program: the mapping file of `import`, the other way round\n"
         "  --dtype=TYPE    floats as bf16, f16, f32 or f64, rounded to the nearest (default: as the model keeps "
         "them)\n"
         "      --help\n",
         report_name(), nnc_program.model, (long long)nnc_program.seed);
}

static bool parse_dtype(const char *text, NncDtype *out) {
  static const NncDtype floats[] = {NNC_F32, NNC_F64, NNC_BF16, NNC_F16};
  for (int i = 0; i < 4; i++)
    if (strcmp(text, dtype_name(floats[i])) == 0) {
      *out = floats[i];
      return true;
    }
  report_error("--dtype: expected bf16, f16, f32 or f64, found \"%s\"", text);
  return false;
}

static int parse_options(int argc, char **argv, ExportOptions *o) {
  static const struct option options[] = {
      {"weights", required_argument, NULL, 'w'}, {"init", optional_argument, NULL, 'i'},
      {"map", required_argument, NULL, 'm'},     {"dtype", required_argument, NULL, 't'},
      {"help", no_argument, NULL, 'h'},          {0},
  };
  bool ok = true;
  o->seed = nnc_program.seed;
  for (int c; ok && (c = getopt_long(argc, argv, "", options, NULL)) != -1;) switch (c) {
    case 'w': o->weights = optarg; break;
    case 'm': o->map = optarg; break;
    case 't': ok = o->typed = parse_dtype(optarg, &o->dtype); break;
    case 'i':
      o->init = true;
      if (optarg) ok = option_integer("init", optarg, 0, &o->seed);
      break;
    case 'h': print_help(); return EXIT_DONE;
    default: ok = false;
    }
  if (ok && optind + 1 != argc) {
    report_error(optind < argc ? "one output file expected, not %d" : "no output file", argc - optind);
    ok = false;
  }
  if (ok) o->output = argv[optind];
  return ok ? -1 : option_unknown("export");
}

int cmd_export(int argc, char **argv) {
  ExportOptions o = {0};
  int status = parse_options(argc, argv, &o);
  if (status >= 0) return status;
  char *path = o.weights ? xstrdup(o.weights) : checkpoint_default_path();
  Arena arena = {0};
  WeightMap *map = NULL;
  bool ok = output_path_check(o.output) && (!o.map || (map = weight_map_read(o.map))) && program_verify() &&
            arena_create(&arena, nnc_program.persistent_bytes);
  ok = ok && (o.init ? init_persistent(arena.base, (uint64_t)o.seed) : weights_load(path, arena.base)) &&
       (map || o.typed ? weight_map_export(o.output, map, o.typed ? &o.dtype : NULL, arena.base)
                       : weights_save(o.output, arena.base));
  arena_destroy(&arena);
  weight_map_free(map);
  free(path);
  return ok ? EXIT_DONE : EXIT_DIAGNOSTIC;
}
