// Ctrl-C and friends: the first asks for a clean end after the current step, the second ends at once without leaving a
// half-written file. An illegal instruction means that the kernels were compiled for a processor with more than this
// one has.
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "runtime/runtime.h"
#include "runtime/training.h"

static volatile sig_atomic_t stop_requested;

static void on_stop(int signal) {
  (void)signal;
  if (stop_requested) {
    safetensors_unlink_pending();
    _exit(EXIT_INTERRUPTED);
  }
  stop_requested = 1;
}

static void on_illegal(int signal) {
  (void)signal;
  static const char text[] =
      "error: illegal instruction: this program was compiled for another processor; compile it on this machine "
      "or with --cpu for this one\n";
  ssize_t written = write(STDERR_FILENO, text, sizeof text - 1);
  (void)written;
  safetensors_unlink_pending();
  _exit(EXIT_DIAGNOSTIC);
}

void signals_install(void) {
  safetensors_keep_pending();
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = on_stop;
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, NULL);
  sigaction(SIGTERM, &action, NULL);
  struct sigaction hangup;   // ignored under nohup
  if (sigaction(SIGHUP, NULL, &hangup) == 0 && hangup.sa_handler != SIG_IGN) sigaction(SIGHUP, &action, NULL);
  action.sa_handler = on_illegal;
  sigaction(SIGILL, &action, NULL);
  signal(SIGXFSZ, SIG_IGN);   // a file that grows too large is a failed write, with its message
}

bool signals_stop_requested(void) { return stop_requested; }
