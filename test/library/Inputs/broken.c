// broken far|threads|machine: instances whose device fails, and machines that are not the program's.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>

#include "libnet.h"
#include "test.h"

static unsigned char image[16][16], label[16];
static const nnc_tensor inputs[] = {{.name = "image", .type = NNC_TYPE_U8, .data = image},
                                    {.name = "label", .type = NNC_TYPE_U8, .data = label}};
static char message[1024];

// The file of the far arena may not be written any more: a thread of a lane says so, the caller hears it.
static void test_far(void) {
  nnc_net *net, *other;
  nnc_info info;
  CHECK(net_model.create(&(nnc_options){.far = "/nowhere/x"}, &net, message, sizeof message) == NNC_ERROR_FILE &&
            strstr(message, "/nowhere/x"),
        "%s", message);
  CHECK(!net_model.create(NULL, &net, message, sizeof message), "%s", message);
  CHECK(!net_model.create(NULL, &other, message, sizeof message), "%s", message);
  CHECK(net_model.info(net, &info) == NNC_OK && info.far_bytes > 0, "a far arena");
  CHECK(net_model.step(net, 2, inputs) == NNC_OK, "%s", net_model.last_error(net));
  signal(SIGXFSZ, SIG_IGN);
  struct rlimit before, none = {.rlim_cur = 0};
  getrlimit(RLIMIT_FSIZE, &before);
  none.rlim_max = before.rlim_max;
  setrlimit(RLIMIT_FSIZE, &none);
  nnc_status status = net_model.step(net, 2, inputs);
  CHECK(status == NNC_ERROR_DEVICE && strstr(net_model.last_error(net), "far arena: cannot write"), "%d: %s", status,
        net_model.last_error(net));
  setrlimit(RLIMIT_FSIZE, &before);
  CHECK(net_model.step(net, 2, inputs) == NNC_ERROR_BROKEN && net_model.info(net, &info) == NNC_ERROR_BROKEN,
        "it cannot be used");
  CHECK(net_model.step(other, 2, inputs) == NNC_OK, "%s", net_model.last_error(other));
  net_model.destroy(net);
  net_model.destroy(other);
}

// oneDNN has been told to do with less by somebody else in the process.
static void test_machine(void) {
  nnc_net *net;
  int (*limit)(int) = (__extension__(int (*)(int)) dlsym(RTLD_DEFAULT, "dnnl_set_max_cpu_isa"));
  int (*use)(void) = (__extension__(int (*)(void)) dlsym(RTLD_DEFAULT, "dnnl_get_effective_cpu_isa"));
  CHECK(limit && use && limit(1) == 0 && use() == 1, "sse41");
  nnc_status status = net_model.create(NULL, &net, message, sizeof message);
  CHECK(status == NNC_ERROR_MACHINE && strstr(message, "but this machine offers sse41"), "%d: %s", status, message);
}

static int threads_left = INT_MAX;   // that can be made

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*work)(void *), void *context) {
  int (*make)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) = (__extension__(
      int (*)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *)) dlsym(RTLD_NEXT, "pthread_create"));
  return threads_left-- > 0 ? make(thread, attributes, work, context) : EAGAIN;
}

// Whichever thread of a lane cannot be made, what is open by then is closed once.
static void test_threads(void) {
  nnc_status status = NNC_ERROR_ARGUMENT;
  int n = 0;
  for (; status && n < 100; n++) {
    nnc_net *net = NULL;
    threads_left = n;
    status = net_model.create(&(nnc_options){.threads = 1}, &net, message, sizeof message);
    CHECK(!status == !!net && (!status || strstr(message, "thread")), "%d: %s", status, message);
    net_model.destroy(net);
  }
  CHECK(!status && n > 2, "%d threads of several functions: %s", n - 1, message);
}

int main(int argc, char **argv) {
  if (argc == 2 && !strcmp(argv[1], "far")) test_far();
  if (argc == 2 && !strcmp(argv[1], "threads")) test_threads();
  if (argc == 2 && !strcmp(argv[1], "machine")) test_machine();
  return argc != 2 || failures;
}
