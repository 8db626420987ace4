// The options of the program's commands.
#ifndef NNC_RUNTIME_OPTIONS_H
#define NNC_RUNTIME_OPTIONS_H

#include "support/options.h"

// options_read, where {model} and {seed} in help are the program's name and seed.
int options_parse(const Command *command, int argc, char **argv, void *values);

#define OPTION_OF_FAR(type, member)                                                      \
  OPTION(type, member, "far", "PATH", TEXT,                                              \
         "of programs with a far arena: a folder, or a file that is not there, for it\n" \
         "(default: what nnc --far named, else the folder that is current)")

// Those of every command that runs steps; `type` has a member `DeviceOptions device`.
#define OPTIONS_OF_DEVICE(type)                                                                               \
  OPTION(type, device.threads, "threads", "N", COUNT, "threads (default: all, up to the number planned for)", \
         .least = 1),                                                                                         \
      OPTION(type, device.device, "device", "N", COUNT,                                                       \
             "number of the GPU, for programs compiled for one (default 0; of several ranks\n"                \
             "each takes that of its number on the machine)"),                                                \
      OPTION_OF_FAR(type, device.far)

#endif
