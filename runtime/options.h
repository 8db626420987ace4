// The options of a command as a table, from which parsing and --help come.
#ifndef NNC_RUNTIME_OPTIONS_H
#define NNC_RUNTIME_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum OptionKind {
  OPTION_FLAG,       // bool: true where it stands
  OPTION_TEXT,       // const char *, borrowed; "" where the argument is left out
  OPTION_INTEGER,    // int64_t of at least `least`; `absent` where the argument is left out
  OPTION_COUNT,      // int of at least `least`
  OPTION_POSITIVE,   // double above 0
  OPTION_READ,       // what `read` makes of the text
} OptionKind;

typedef struct Option {
  const char *name;       // without the hyphens
  char letter;            // 0: none
  const char *argument;   // "FILE"; "[=FILE]" may be left out; NULL: takes none
  OptionKind kind;
  size_t at;   // where in the command's values
  int64_t least, absent;
  bool (*read)(const char *text, void *out);   // false after reporting
  const char *help;   // lines end in \n but for the last; {model} and {seed} are the program's name and seed
} Option;

typedef struct Command {
  const char *name;
  const char *usage;          // behind the name, one line for each way
  const char *before;         // what it does; NULL: nothing to say
  const char *after;          // behind the options; NULL: nothing
  void (*print_more)(void);   // behind that; NULL: nothing
  int n_options;
  const Option *options;   // --help is in none
} Command;

// argv[0] is the command's name. -1: go on, with what is no option behind optind; otherwise the exit status, after
// --help or a message. Values that no option names stay as they are.
int options_parse(const Command *command, int argc, char **argv, void *values);
int options_misused(const Command *command);   // "Try … --help" on stderr; EXIT_USAGE

// A row: of `type` the member that takes the value, the option's name, its argument or NULL, FLAG, TEXT, …; then what
// help says, and other members of Option.
#define OPTION(type, member, name_, argument_, kind_, ...) \
  { .name = name_, .argument = argument_, .kind = OPTION_##kind_, .at = offsetof(type, member), .help = __VA_ARGS__ }

// Those of every command that runs steps; `type` has a member `DeviceOptions device`.
#define OPTIONS_OF_DEVICE(type)                                                                               \
  OPTION(type, device.threads, "threads", "N", COUNT, "threads (default: all, up to the number planned for)", \
         .least = 1),                                                                                         \
      OPTION(type, device.device, "device", "N", COUNT,                                                       \
             "number of the GPU, for programs compiled for one (default 0)")

#endif
