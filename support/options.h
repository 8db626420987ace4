// The options of a command as a table, from which parsing and --help come.
#ifndef NNC_SUPPORT_OPTIONS_H
#define NNC_SUPPORT_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum OptionKind {
  OPTION_FLAG,       // bool: true where it stands
  OPTION_TEXT,       // const char *, borrowed; "" where the argument is left out
  OPTION_WORD,       // const char *: one of `words`
  OPTION_CHOICE,     // int: which of `words`
  OPTION_INTEGER,    // int64_t of at least `least`; `absent` where the argument is left out
  OPTION_COUNT,      // int from `least` to `most`, or without a bound above where `most` is 0
  OPTION_NATURAL,    // uint64_t
  OPTION_POSITIVE,   // double above 0
  OPTION_READ,       // what `read` makes of the text
  OPTION_STOP,       // nothing: `stop` is called, and its exit status is the command's
} OptionKind;

typedef struct Option {
  const char *name;   // without the hyphens; NULL: the letter alone
  char letter;        // 0: none
  // "FILE"; "[=FILE]" may be left out; NULL: takes none. Of a letter alone as it follows there: " LEVEL", or with a
  // fixed beginning up to '=', "max-errors=N"
  const char *argument;
  OptionKind kind;
  size_t at;   // where in the command's values
  int64_t least, most, absent;
  const char *const *words;                     // NULL behind the last
  const char *(*read)(char *text, void *out);   // NULL, or what is expected: "a size such as 512MiB"
  int (*stop)(const char *text);                // NULL for the text where the option takes none
  const char *heading;                          // of this row and those behind; NULL: goes on
  const char *help;                             // lines end in \n but for the last; NULL: not told
} Option;

typedef struct Command {
  const char *usage;          // behind the name, one line for each way
  const char *before;         // what it does; NULL: nothing to say
  const char *after;          // behind the options; NULL: nothing
  void (*print_more)(void);   // behind that; NULL: nothing
  int n_options;
  const Option *options;   // --help is in none
} Command;

// How a program speaks; NULL for what is usual.
typedef struct OptionsHooks {
  void (*report)(const char *format, ...) __attribute__((format(printf, 1, 2)));   // else on stderr, the command first
  void (*print)(const char *text, size_t n);                                       // a piece of help
} OptionsHooks;

// argv[0] is the command as it is called, "nnc check". -1: go on, with what is no option behind optind; otherwise the
// exit status, after --help, a STOP or a message. Values that no option names stay as they are. hooks may be NULL.
int options_read(const Command *command, const OptionsHooks *hooks, int argc, char **argv, void *values);
// What is wrong (NULL: that has been said) and "Try … --help" on stderr; the exit status of wrong usage.
int options_misused(const char *command, const char *format, ...) __attribute__((format(printf, 2, 3)));
// At the start of a program: where the caller closed one of the standard streams, it becomes one that reads nothing and
// cannot be written. Else a file that is opened gets its number, and what is printed goes into the file.
void options_begin(void);
// What was printed must have arrived: reports and returns 1 where standard output cannot be written, else `status`.
int options_end(const char *command, int status);

// A row: of `type` the member that takes the value, the option's name, its argument or NULL, FLAG, TEXT, …; then what
// help says, and other members of Option.
#define OPTION(type, member, name_, argument_, kind_, ...) \
  { .name = name_, .argument = argument_, .kind = OPTION_##kind_, .at = offsetof(type, member), .help = __VA_ARGS__ }
// One that prints something and ends the command.
#define OPTION_THAT_STOPS(name_, argument_, stop_, help_) \
  { .name = name_, .argument = argument_, .kind = OPTION_STOP, .stop = stop_, .help = help_ }
#define OPTION_WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})
#define OPTIONS(rows) .options = rows, .n_options = sizeof(rows) / sizeof *(rows)

#endif
