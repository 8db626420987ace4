// ptxas, where there is one: PTX assembled at compile time starts without the driver's compiler. Nothing depends on it.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "codegen/cuda/cuda.h"
#include "support/text.h"

extern char **environ;

static bool run(const char *const *argv, bool verbose) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  if (!verbose) {
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  }
  posix_spawnattr_t attributes;   // signals that are blocked here (scratch.c) end the command
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  pid_t pid = 0, done;
  int status = 0;
  bool ok = posix_spawnp(&pid, "ptxas", &actions, &attributes, (char *const *)argv, environ) == 0;
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (ok) {
    do done = waitpid(pid, &status, 0);
    while (done < 0 && errno == EINTR);
    ok = done == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }
  return ok;
}

// On as many threads as there are cores, which ptxas before CUDA 12 cannot.
bool cuda_assemble(const char *ptx_path, const char *cubin_path, const CudaArch *arch, bool verbose) {
  char *name = text_format("-arch=%s", arch->name);
  const char *threads[] = {"ptxas", name, "--split-compile=0", "-o", cubin_path, ptx_path, NULL},
             *plain[] = {"ptxas", name, "-o", cubin_path, ptx_path, NULL};
  bool ok = run(threads, false) || run(plain, verbose);
  if (verbose)
    fprintf(stderr, "ptxas %s -o %s %s%s\n", name, cubin_path, ptx_path,
            ok ? "" : ": not used, the executable holds PTX only");
  free(name);
  return ok;
}
