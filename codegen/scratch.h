// The folder that an executable is made in. It goes away with the compilation, also when that is interrupted.
#ifndef NNC_CODEGEN_SCRATCH_H
#define NNC_CODEGEN_SCRATCH_H

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

typedef struct Scratch {
  char *folder;   // Owned
  bool keep;
  pthread_t watcher;   // waits for SIGINT, SIGTERM and SIGHUP, which the other threads block meanwhile
  bool is_watched;
  sigset_t before;   // the caller's signal mask
} Scratch;

// Makes a folder beside `output`, so that a rename from there stays on its file system. False after reporting.
bool scratch_begin(Scratch *s, const char *output, bool keep);
// Removes the folder and what is in it, unless it is to be kept.
void scratch_end(Scratch *s);

// Starts a command, which the signals end that are blocked here, with all that it prints appended to `output`; NULL: it
// prints as this process does. 0, or errno's number where it cannot be started.
int scratch_start(const char *const *argv, const char *output, pid_t *pid);
bool scratch_wait(pid_t pid);   // whether it ended with status 0

#endif
