// `info`: what the program is and what it will take: parameters, the arena, the budget, the data.
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/comm/comm.h"
#include "runtime/options.h"
#include "runtime/runtime.h"
#include "runtime/training.h"

typedef struct InfoOptions {
  const char *data;
  bool arena, steps;
} InfoOptions;

static const Option options[] = {
    OPTION(InfoOptions, data, "data", "DIR", TEXT, "folder of the data files"),
    OPTION(InfoOptions, arena, "arena", NULL, FLAG, "every persistent tensor with its place in the arena"),
    OPTION(InfoOptions, steps, "steps", NULL, FLAG, "every step of every function with the offsets of its buffers"),
};
static const Command command = {.usage = "[OPTION]... [FILE]...",
                                .before = "What the program is, or what the checkpoints and weight files FILE are and "
                                          "whether their checksums match.",
                                OPTIONS(options)};

static int parse_options(int argc, char **argv, InfoOptions *o) {
  int status = options_parse(&command, argc, argv, o);
  if (status >= 0) return status;
  if (optind == argc || !(o->data || o->arena || o->steps)) return -1;
  report_error("FILE excludes all options");
  return options_misused(argv[0], NULL);
}

static const char *role_name(NncRole role) {
  // ORDER of NncRole
  static const char *const names[] = {"input", "parameter", "state",  "optimizer", "accumulator", "rng",
                                      "hyper", "loss",      "metric", "output",    "cache"};
  return names[role];
}

// "4096", "far 4096".
static const char *print_address(int64_t address, char *buf, size_t size) {
  bool far = is_far_address(address);
  snprintf(buf, size, "%s%lld", far ? "far " : "", (long long)(far ? address - FAR_ADDRESS : address));
  return buf;
}

static void print_parameters(bool with_places) {
  const NncProgram *p = &nnc_program;
  char shape[128], text[32];
  int64_t elements = 0, bytes[3] = {0, 0, 0};
  int width = 9;
  for (int i = 0; i < p->n_persistent; i++) {
    const NncTensor *t = &p->persistent[i];
    int n = (int)strlen(t->name);
    if ((with_places || t->role == NNC_PARAM || t->role == NNC_STATE) && n > width) width = n;
    if (t->role == NNC_PARAM) elements += tensor_elements(t), bytes[0] += t->bytes;
    else bytes[t->role == NNC_STATE ? 1 : 2] += t->bytes;
  }
  if (with_places) printf("%12s %12s  ", "offset", "bytes");
  printf("%-*s  type and shape\n", width, "name");
  for (int i = 0; i < p->n_persistent; i++) {
    const NncTensor *t = &p->persistent[i];
    if (!with_places && t->role != NNC_PARAM && t->role != NNC_STATE) continue;
    if (with_places) printf("%12s %12lld  ", print_address(t->offset, text, sizeof text), (long long)t->bytes);
    printf("%-*s  %s%s", width, t->name, dtype_name(t->dtype), format_shape(t->rank, t->dim, shape, sizeof shape));
    if (t->role != NNC_PARAM) printf("  %s", role_name(t->role));
    else if (t->init && *t->init) printf("  %s", t->init);
    putchar('\n');
  }
  printf("\nparameters      %lld in %s\n", (long long)elements, print_bytes(bytes[0], text, sizeof text));
  if (bytes[1]) printf("states          %s\n", print_bytes(bytes[1], text, sizeof text));
  if (bytes[2])
    printf("optimizer       %s (%s)\n", print_bytes(bytes[2], text, sizeof text), p->optimizer ? p->optimizer : "none");
}

static void print_cache(const NncFunction *f) {
  int64_t bytes = 0, positions = 0;
  char text[32];
  for (int i = 0; f && i < f->n_args; i++) bytes += f->args[i].role == NNC_CACHE ? f->args[i].bytes : 0;
  const NncFunction *whole = bytes ? program_function("predict") : NULL;
  for (int i = 0; whole && i < whole->n_args; i++)
    if (whole->args[i].role == NNC_INPUT) positions = whole->args[i].dim[1];
  if (bytes)
    printf("kv cache        %s for %lld positions\n", print_bytes(bytes, text, sizeof text), (long long)positions);
}

static void print_functions(void) {
  const NncProgram *p = &nnc_program;
  char a[32], b[32];
  for (int i = 0; i < p->n_functions; i++) {
    const NncFunction *f = &p->functions[i];
    int recomputed = 0;
    for (int k = 0; k < f->n_steps; k++) recomputed += f->steps[k].recomputed;
    printf("%-15s %d steps, %d recomputed, %.3f GFLOP, arena %s, live at most %s", f->name, f->n_steps, recomputed,
           f->flops * 1e-9, print_bytes(f->arena_bytes, a, sizeof a), print_bytes(f->live_bytes, b, sizeof b));
    if (recomputed) printf(", %.1f%% more time predicted", 100 * f->recompute_overhead);
    putchar('\n');
  }
}

static void print_arena(void) {
  const NncProgram *p = &nnc_program;
  char text[32];
  printf("arena           %lld bytes (%s)\n", (long long)p->arena_bytes,
         print_bytes(p->arena_bytes, text, sizeof text));
  printf("  persistent    %s, bytes 0 to %lld\n", print_bytes(p->persistent_bytes, text, sizeof text),
         (long long)p->persistent_bytes);
  printf("  of one step   %s\n", print_bytes(p->arena_bytes - p->persistent_bytes, text, sizeof text));
  if (p->far_bytes > 0) {
    printf("far arena       %lld bytes (%s)\n", (long long)p->far_bytes, print_bytes(p->far_bytes, text, sizeof text));
    printf("  persistent    %s, bytes 0 to %lld\n", print_bytes(p->far_persistent_bytes, text, sizeof text),
           (long long)p->far_persistent_bytes);
  }
  if (p->budget_bytes > 0) printf("budget          %s\n", print_bytes(p->budget_bytes, text, sizeof text));
  if (p->remat && *p->remat) printf("rematerialized  %s\n", p->remat);
}

// False when the files are there but bad.
static bool print_data(const char *split, const NncFunction *f, const char *folder) {
  char text[32];
  if (!f || !dataset_has_split(split)) return true;
  if (!dataset_files_exist(split, folder)) {
    printf("%-5s data      files not found:", split);
    for (int i = 0; i < nnc_program.n_data; i++)
      for (int k = 0; k < nnc_program.data[i].n_files && strcmp(nnc_program.data[i].split, split) == 0; k++)
        printf(" %s", nnc_program.data[i].files[k]);
    putchar('\n');
    return true;
  }
  Dataset d;
  if (!dataset_load(split, f, folder, &d)) return false;
  if (strcmp(split, "train") == 0) dataset_shuffle(&d, 0, 0);   // the order is held too
  if (d.members)
    printf("validation      %lld records of the train data\n", (long long)(d.columns[0].records - d.records));
  DataWait ahead = d.ahead ? ahead_wait(d.ahead) : (DataWait){0};
  printf("%-5s data      %lld records, %s held in memory", split, (long long)d.records,
         print_bytes(d.bytes, text, sizeof text));
  if (ahead.bytes)
    printf(", %s of it for %d batches that %d thread%s read%s ahead", print_bytes(ahead.bytes, text, sizeof text),
           ahead.n_batches, ahead.threads, ahead.threads == 1 ? "" : "s", ahead.threads == 1 ? "s" : "");
  putchar('\n');
  dataset_free(&d);
  return true;
}

static void print_steps(const NncFunction *f) {
#define NAME(KIND, name, Record, gpu) [NNC_STEP_##KIND] = #name,
  static const char *const kinds[] =
      {[NNC_STEP_KERNEL] = "kernel",         [NNC_STEP_COPY] = "copy", [NNC_STEP_TAP] = "tap", [NNC_STEP_SCAN] = "scan",
       [NNC_STEP_COLLECTIVE] = "collective", NNC_LIBRARY_RECORDS(NAME)};
#undef NAME
  printf("\n%s\n", f->name);
  for (int i = 0; i < f->n_steps; i++) {
    const NncStep *s = &f->steps[i];
    char text[32];
    printf("%5d  %-6s  %s%s ", i, kinds[s->kind], s->label ? s->label : "", s->recomputed ? " (recomputed)" : "");
    for (int k = 0; k < s->n_buffers; k++) printf(" %s", print_address(s->buffers[k], text, sizeof text));
    if (s->workspace >= 0) printf("  workspace %lld", (long long)s->workspace);
    if (s->lane != NNC_LANE_COMPUTE) printf("  on lane %s", lane_name(s->lane));
    for (int k = 0; k < s->n_waits; k++) printf("%s%d", k ? ", " : "  waits for ", (int)s->waits[k]);
    putchar('\n');
  }
}

static bool print_file(const char *path) {
  Safetensors s;
  if (!safetensors_open(path, &s)) return false;
  const char *model = safetensors_metadata(&s, "model"), *step = safetensors_metadata(&s, "step");
  int64_t bytes = 0;
  char text[32];
  for (int i = 0; i < s.n_entries; i++) bytes += s.entries[i].bytes;
  printf("%s: %s", path, step ? "checkpoint" : "tensors");
  if (model) printf(" of %s", model);
  if (step) printf(" after step %s", step);
  printf(", %d tensors, %s, %s\n", s.n_entries, print_bytes(bytes, text, sizeof text),
         s.has_sums ? "checksums match" : "no checksums");
  safetensors_close(&s);
  return true;
}

// What the ranks of a distributed program exchange in a step. Every rank has the same arena.
static void print_ranks(void) {
  int64_t buckets = 0, largest = 0, staging = 0, chains = 0;
  bool fast = false;
  for (int phase = 0; phase < program_phases(); phase++) {
    const NncFunction *f = program_train(phase);
    for (int i = 0; f && i < f->n_steps; i++) {
      const NncCollective *c = f->steps[i].kind == NNC_STEP_COLLECTIVE ? f->steps[i].collective : NULL;
      if (!c) continue;
      int64_t bytes = c->elements * dtype_bytes(c->dtype);
      chains += c->kind == NNC_RANK_SEND;
      if (c->kind == NNC_REDUCE_SCATTER) bytes *= c->ranks;
      if (c->kind != NNC_ALL_REDUCE && c->kind != NNC_REDUCE_SCATTER) continue;
      buckets++;
      fast |= c->fast;
      if (bytes > largest) largest = bytes;
      if (c->scratch_bytes > staging) staging = c->scratch_bytes;
    }
  }
  char size[32], scratch[32];
  if (nnc_program.ranks) printf("ranks           %d, by", nnc_program.ranks);
  else printf("ranks           any number, by");
  for (int i = 0; nnc_program.comms[i]; i++) printf("%s %s", i ? " or" : "", nnc_program.comms[i]->name);
  printf("; each has this arena\n");
  if (nnc_program.ranks) {
    bool gradients = strcmp(nnc_program.shard, "optimizer") != 0;
    printf("  in parts      state of the optimizer%s%s\n", gradients ? ", gradients" : "",
           strcmp(nnc_program.shard, "parameters") == 0 ? ", parameters" : "");
  }
  printf("  gradients     in %lld bucket%s of at most %s, staging %s\n", (long long)buckets, buckets == 1 ? "" : "s",
         print_bytes(largest, size, sizeof size), print_bytes(staging, scratch, sizeof scratch));
  if (fast)
    printf("  sums          %s: the bits depend on the number of ranks\n",
           nnc_program.cuda ? "NCCL's own" : "the MPI's own, by TCP in the order of ranks");
  if (chains)
    printf("  statistics    from rank to rank, in %lld message%s\n", (long long)chains, chains == 1 ? "" : "s");
}

static void print_phase(const NncPhase *p) {
  int64_t parameters = 0;
  for (int i = 0; i < nnc_program.n_persistent; i++) {
    const NncTensor *t = &nnc_program.persistent[i];
    if (t->role == NNC_PARAM && t->group >= p->first_group && t->group < p->first_group + p->n_groups)
      parameters += tensor_elements(t);
  }
  printf("phase           %s, ", p->name);
  if (p->every > 1) printf("every %lld steps", (long long)p->every);
  else printf("each step");
  printf(", %s, %lld parameters\n", p->optimizer, (long long)parameters);
}

int cmd_info(int argc, char **argv) {
  InfoOptions o = {0};
  int status = parse_options(argc, argv, &o);
  if (status >= 0) return status;
  if (optind < argc) {
    bool good = true;
    for (int i = optind; i < argc; i++) good &= print_file(argv[i]);
    return good ? EXIT_DONE : EXIT_DIAGNOSTIC;
  }
  const NncProgram *p = &nnc_program;
  printf("%s, compiled from %s by nnc %s for %s (%s)\n\n", p->model, p->source, p->compiler, p->cpu,
         !p->cuda        ? p->isa
         : p->cuda->tf32 ? "f32 products in tf32"
                         : "f32 products in f32");
  print_parameters(o.arena);
  print_arena();
  printf("batch           %lld", (long long)p->batch);
  if (p->accumulate > 1) printf(", %lld micro-batches a step", (long long)p->accumulate);
  putchar('\n');
  print_cache(program_function("decode"));
  for (int i = 0; i < p->n_phases; i++) print_phase(&p->phases[i]);
  if (p->comms) print_ranks();
  print_functions();
  bool ok = print_data("train", program_train(0), o.data) & print_data("eval", program_function("eval"), o.data);
  for (int i = 0; o.steps && i < p->n_functions; i++) print_steps(&p->functions[i]);
  ok &= program_verify();
  return ok ? EXIT_DONE : EXIT_DIAGNOSTIC;
}
