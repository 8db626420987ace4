// The folder that an executable is made in; scratch.h. Files are removed by a thread that waits for signals, not by a
// handler, which could do little safely while other threads write.
#include "codegen/scratch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/text.h"

extern char **environ;

// More than once, since a compiler that has not stopped yet may add a file between the two steps.
static void remove_folder(const char *folder) {
  for (int tries = 0; tries < 5; tries++) {
    DIR *d = opendir(folder);
    if (!d) return;
    for (struct dirent *e; (e = readdir(d));)
      if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0) unlinkat(dirfd(d), e->d_name, 0);
    closedir(d);
    if (rmdir(folder) == 0) return;
  }
}

static sigset_t watched(void) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGHUP);
  sigaddset(&set, SIGUSR1);   // from scratch_end: nothing more to watch
  return set;
}

static void *watch(void *argument) {
  Scratch *s = argument;
  sigset_t set = watched();
  int caught = 0;
  if (sigwait(&set, &caught) != 0 || caught == SIGUSR1) return NULL;
  if (!s->keep) remove_folder(s->folder);
  signal(caught, SIG_DFL);
  pthread_sigmask(SIG_UNBLOCK, &set, NULL);
  raise(caught);
  return NULL;
}

bool scratch_begin(Scratch *s, const char *output, bool keep) {
  // "./-x.…": a name that begins with a dash would be an option to the C compiler.
  *s = (Scratch){.keep = keep, .folder = text_format("%s%s.XXXXXX", *output == '-' ? "./" : "", output)};
  sigset_t set = watched();
  pthread_sigmask(SIG_BLOCK, &set, &s->before);
  if (mkdtemp(s->folder)) {
    s->is_watched = pthread_create(&s->watcher, NULL, watch, s) == 0;
    return true;
  }
  fprintf(stderr, "nnc: error: cannot write beside '%s': %s\n", output, strerror(errno));
  pthread_sigmask(SIG_SETMASK, &s->before, NULL);
  free(s->folder);
  return false;
}

void scratch_end(Scratch *s) {
  if (s->keep) fprintf(stderr, "nnc: temporary files are in %s\n", s->folder);
  else remove_folder(s->folder);
  if (s->is_watched) {
    pthread_kill(s->watcher, SIGUSR1);
    pthread_join(s->watcher, NULL);
  }
  pthread_sigmask(SIG_SETMASK, &s->before, NULL);
  free(s->folder);
}

int scratch_start(const char *const *argv, const char *output, pid_t *pid) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  if (output) {
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, output, O_WRONLY | O_CREAT | O_APPEND, 0600);
    posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  }
  posix_spawnattr_t attributes;
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  int error = posix_spawnp(pid, argv[0], &actions, &attributes, (char *const *)argv, environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return error;
}

bool scratch_wait(pid_t pid) {
  int status = 0;
  pid_t done;
  do done = waitpid(pid, &status, 0);
  while (done < 0 && errno == EINTR);
  return done == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}
