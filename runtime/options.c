// The options of the program's commands.
#include "runtime/options.h"

#include <string.h>

#include "runtime/runtime.h"

static void print_expanded(const char *text, size_t n) {
  static const char model[] = "{model}", seed[] = "{seed}";
  for (const char *end = text + n; text < end;) {
    if (strncmp(text, model, sizeof model - 1) == 0) {
      fputs(nnc_program.model, stdout);
      text += sizeof model - 1;
    } else if (strncmp(text, seed, sizeof seed - 1) == 0) {
      printf("%lld", (long long)nnc_program.seed);
      text += sizeof seed - 1;
    } else {
      putchar(*text++);
    }
  }
}

int options_parse(const Command *command, int argc, char **argv, void *values) {
  static const OptionsHooks hooks = {.report = report_error, .print = print_expanded};
  return options_read(command, &hooks, argc, argv, values);
}
