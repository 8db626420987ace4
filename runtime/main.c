// The command line of a compiled model: `model COMMAND [OPTION]...`.
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/runtime.h"
#include "runtime/training.h"
#include "support/options.h"

static const struct {
  const char *name;
  int (*run)(int, char **);
  const char *doc;
} commands[] = {
    {"train", cmd_train, "train on the data the model names, save a checkpoint"},
    {"eval", cmd_eval, "loss and metrics of saved weights on the eval data"},
    {"predict", cmd_predict, "the model's outputs for given inputs"},
    {"step", cmd_step, "one training step on given tensors; writes loss, outputs, gradients, updated parameters"},
    {"bench", cmd_bench, "time of a training step, memory planned and used"},
    {"gradcheck", cmd_gradcheck, "gradients against finite differences, for programs without data"},
    {"info", cmd_info, "parameters, arena, budget, data"},
    {"import", cmd_import, "weights of another program, renamed by a mapping file, as a weight file"},
    {"export", cmd_export, "parameters and states from a checkpoint, as a weight file"},
};

static void print_help(FILE *to) {
  fprintf(to, "Usage: %s COMMAND [OPTION]...\n\nThe model %s, compiled from %s.\n\nCommands:\n", report_name(),
          nnc_program.model, nnc_program.source);
  for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
    fprintf(to, "  %-9s %s\n", commands[i].name, commands[i].doc);
  fprintf(to,
          "\n'%s COMMAND --help' tells the options of a command.\n"
          "Exit status: 0 done, 1 an error in the input, 2 usage, 70 a bug of the compiler, 130 interrupted.\n",
          report_name());
}

// GCC's OpenMP lets a thread that waits for the others spin for some 15 ms. On a machine that runs anything else, the
// spinning thread uses up its time slice, is put aside for a whole one, and every kernel waits for it: steps were
// measured to take ten times as long. A short spin (about 0.1 ms) costs nothing on an idle machine. libgomp reads the
// setting before main, hence a second start.
static void shorten_spinning(char **argv) {
  if (getenv("GOMP_SPINCOUNT") || getenv("OMP_WAIT_POLICY") || setenv("GOMP_SPINCOUNT", "1000", 1) != 0) return;
  execv("/proc/self/exe", argv);   // without it only the speed suffers
}

// What a command printed must have arrived: a full disk or a closed pipe is an error of its own.
static int finish(int status) {
  if (fflush(stdout) == 0 && !ferror(stdout)) return status;
  report_error("cannot write to standard output: %s", strerror(errno));
  return status == EXIT_DONE ? EXIT_DIAGNOSTIC : status;
}

int main(int argc, char **argv) {
  options_begin();
  report_set_name(argc > 0 ? argv[0] : "model");
  if (argc < 2) {
    print_help(stderr);
    return EXIT_USAGE;
  }
  if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
    print_help(stdout);
    return finish(EXIT_DONE);
  }
  if (strcmp(argv[1], "--version") == 0) {
    printf("%s (%s, compiled by nnc %s for %s)\n", nnc_program.model, nnc_program.source, nnc_program.compiler,
           nnc_program.cpu);
    return finish(EXIT_DONE);
  }
  for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
    if (strcmp(argv[1], commands[i].name) != 0) continue;
    shorten_spinning(argv);
    signals_install();
    char name[256];
    snprintf(name, sizeof name, "%s %s", report_name(), argv[1]);
    argv[1] = name;
    return finish(commands[i].run(argc - 1, argv + 1));
  }
  report_error("unknown command %s", argv[1]);
  fprintf(stderr, "Try '%s --help' for more information.\n", report_name());
  return EXIT_USAGE;
}
