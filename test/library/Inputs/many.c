// many [INSTANCES | threads]: two models, instances of each, threads, memory. What is asked of malloc is counted, and
// refused where the test wants it.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <unistd.h>

#include "libconv.h"
#include "libnet.h"
#include "test.h"

// ---------------------------------------------------------------------------------------------------------------------
// Memory

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t n, size_t bytes);
void *__libc_realloc(void *p, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);
void __libc_free(void *p);

static atomic_long asked, given_back;
static long refuse_from = -1, asked_by_model;   // of the model's own calls

// The interface's own calls of malloc, not those of the libraries under it, which end the process.
static bool refused(const void *caller) {
  Dl_info where;
  asked++;
  if (refuse_from < 0 || !dladdr(caller, &where) || !strstr(where.dli_fname, "libnet.so")) return false;
  return asked_by_model++ == refuse_from;
}

void *malloc(size_t bytes) { return refused(__builtin_return_address(0)) ? NULL : __libc_malloc(bytes); }
void *calloc(size_t n, size_t bytes) { return refused(__builtin_return_address(0)) ? NULL : __libc_calloc(n, bytes); }
void *realloc(void *p, size_t bytes) {
  if (refused(__builtin_return_address(0))) return NULL;
  given_back += p != NULL;
  return __libc_realloc(p, bytes);
}
void *aligned_alloc(size_t alignment, size_t bytes) {
  asked++;
  return __libc_memalign(alignment, bytes);
}
int posix_memalign(void **p, size_t alignment, size_t bytes) {
  asked++;
  *p = __libc_memalign(alignment, bytes);
  return *p ? 0 : 12;
}
void *memalign(size_t alignment, size_t bytes) {
  asked++;
  return __libc_memalign(alignment, bytes);
}
void free(void *p) {
  given_back += p != NULL;
  __libc_free(p);
}

// ---------------------------------------------------------------------------------------------------------------------

#ifndef BATCH
#define BATCH 16
#endif
static unsigned char image[BATCH][16];
static int32_t label[BATCH];
static const nnc_tensor inputs[] = {{.name = "image", .type = NNC_TYPE_U8, .data = image},
                                    {.name = "label", .type = NNC_TYPE_I32, .data = label}};

static nnc_net *make(const nnc_model *m, int threads, int64_t seed) {
  nnc_net *net;
  char message[512];
  nnc_options o = {.threads = threads, .seed = &seed};
  CHECK(m->create(&o, &net, message, sizeof message) == NNC_OK, "%s", message);
  if (!net) exit(1);
  return net;
}

static double loss_of(const nnc_model *m, nnc_net *net) {
  double loss = -1;
  CHECK(m->get(net, &(nnc_tensor){.name = "loss", .type = NNC_TYPE_F64, .data = &loss}) == NNC_OK, "%s",
        m->last_error(net));
  return loss;
}

static void steps(const nnc_model *m, nnc_net *net, int n) {
  for (int i = 0; i < n; i++) CHECK(m->step(net, 2, inputs) == NNC_OK, "%s", m->last_error(net));
}

// After the first, a call takes no memory, also what it computes: of own loops none at all, and what oneDNN takes for
// itself is back before the call is over.
static void test_allocations(void) {
  float scores[20][3] = {0};
  double loss;
  nnc_net *net = make(&net_model, 2, 1), *conv = make(&conv_model, 2, 1);
  nnc_tensor out = {.name = "net", .type = NNC_TYPE_F32, .rank = 2, .dim = {20, 3}, .data = scores}, t;
  static unsigned char many[20][16];
  nnc_tensor twenty = {.name = "image", .type = NNC_TYPE_U8, .rank = 4, .dim = {20, 1, 4, 4}, .data = many};
  for (int64_t i = 0; net_model.describe(net, i, &t) == NNC_OK; i++)
    if (t.role == NNC_ROLE_OUTPUT) out.name = t.name;
  nnc_tensor values[2] = {{.role = NNC_ROLE_INPUT}};
  for (int64_t i = 0; net_model.describe(net, i, &t) == NNC_OK; i++)
    if (t.role == NNC_ROLE_VALUE && strcmp(t.name, "grad.linear.weight") != 0 && !values[0].name)
      values[0] = (nnc_tensor){.name = t.name, .type = t.type, .data = malloc((size_t)t.bytes)};
  static float gradient[16 * 16];
  values[1] = (nnc_tensor){.name = "grad.linear.weight", .type = NNC_TYPE_F32, .data = gradient};
  long before = asked;
  for (int i = 0; i < 100; i++) {
    steps(&net_model, net, 1);
    CHECK(net_model.step_values(net, 2, inputs, 2, values) == NNC_OK, "%s", net_model.last_error(net));
    CHECK(net_model.evaluate(net, 2, inputs) == NNC_OK, "%s", net_model.last_error(net));
    CHECK(net_model.predict(net, 1, &twenty, 1, &out) == NNC_OK, "%s", net_model.last_error(net));
    net_model.get(net, &(nnc_tensor){.name = "loss", .type = NNC_TYPE_F64, .data = &loss});
    net_model.set_number(net, "learning_rate", 0.01);
  }
  CHECK(asked == before, "%ld calls of malloc after create", asked - before);
  CHECK(gradient[0] != 0 || gradient[17] != 0, "no gradient");
  // of images that are alike, in two batches
  CHECK(scores[0][0] != 0 && memcmp(scores[0], scores[19], sizeof *scores) == 0, "%g, %g", (double)scores[0][0],
        (double)scores[19][0]);
  free(values[0].data);
  steps(&conv_model, conv, 1);
  long kept = asked - given_back;
  steps(&conv_model, conv, 100);
  CHECK(asked - given_back == kept, "%ld blocks kept by 100 steps", asked - given_back - kept);
  net_model.destroy(net);
  conv_model.destroy(conv);
}

static long resident(void) {
  long pages = 0, ignored;
  FILE *f = fopen("/proc/self/statm", "r");
  if (!f || fscanf(f, "%ld %ld", &ignored, &pages) != 2) pages = 0;
  if (f) fclose(f);
  return pages * sysconf(_SC_PAGESIZE);
}

static void test_churn(int n) {
  long blocks = 0, bytes = 0;
  for (int i = 0; i < n + 100; i++) {
    if (i == 100) blocks = asked - given_back, bytes = resident();
    const nnc_model *m = i % 4 ? &net_model : &conv_model;
    m->destroy(make(m, 1, i));
  }
  CHECK(asked - given_back == blocks, "%ld blocks kept by %d instances", asked - given_back - blocks, n);
  CHECK(resident() < bytes + (2 << 20), "%ld bytes more after %d instances", resident() - bytes, n);
}

// Wherever create is refused memory, it says so, and the process goes on.
static void test_refused(void) {
  nnc_status status = NNC_ERROR_MEMORY;
  nnc_net *net = NULL;
  char message[512];
  long n;
  for (n = 0; status == NNC_ERROR_MEMORY && n < 10000; n++) {
    asked_by_model = 0, refuse_from = n;
    status = net_model.create(&(nnc_options){.threads = 1}, &net, message, sizeof message);
    refuse_from = -1;
    CHECK(status == NNC_OK || strstr(message, "out of memory"), "%s", message);
  }
  CHECK(status == NNC_OK && n > 5, "%d after %ld", status, n);
  net_model.destroy(net);
}

// ---------------------------------------------------------------------------------------------------------------------
// Threads

static int n_steps = 200;

typedef struct Worker {
  const nnc_model *model;
  int64_t seed;
  double loss;
} Worker;

static void *work(void *worker) {
  Worker *w = worker;
  nnc_net *net = make(w->model, 1, w->seed);
  steps(w->model, net, n_steps);
  char path[64];
  snprintf(path, sizeof path, "%s-%d.safetensors", w->model->name, (int)w->seed);
  CHECK(w->model->save(net, path, 0) == NNC_OK && w->model->load(net, path, 0) == NNC_OK, "%s",
        w->model->last_error(net));
  w->loss = loss_of(w->model, net);
  w->model->destroy(net);
  return NULL;
}

static void test_threads(void) {
  Worker alone[] = {{&net_model, 1, 0}, {&conv_model, 2, 0}, {&net_model, 3, 0}},
         beside[] = {alone[0], alone[1], alone[2]};
  pthread_t threads[3];
  for (int i = 0; i < 3; i++) work(&alone[i]);
  for (int i = 0; i < 3; i++) pthread_create(&threads[i], NULL, work, &beside[i]);
  for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
  for (int i = 0; i < 3; i++)
    CHECK(alone[i].loss == beside[i].loss, "instance %d: %.17g alone, %.17g beside others", i, alone[i].loss,
          beside[i].loss);
  CHECK(alone[0].loss != alone[2].loss, "other seeds");
}

// One instance, each step of it in another thread; and the caller's own setting of OpenMP stays.
static void *one_step(void *net) {
  steps(&net_model, net, 1);
  return NULL;
}

static void test_wandering(void) {
  nnc_net *net = make(&net_model, 2, 1), *same = make(&net_model, 2, 1);
  for (int i = 0; i < 10; i++) {
    pthread_t thread;
    pthread_create(&thread, NULL, one_step, net);
    pthread_join(thread, NULL);
  }
  steps(&net_model, same, 10);
  CHECK(loss_of(&net_model, net) == loss_of(&net_model, same), "from one thread and from ten");
  net_model.destroy(net);
  net_model.destroy(same);
}

int main(int argc, char **argv) {
  bool only_threads = argc > 1 && !strcmp(argv[1], "threads");   // for an emulated GPU, which takes memory as it likes
  for (int i = 0; i < BATCH * 16; i++) image[i / 16][i % 16] = (unsigned char)(i * 37 % 251);
  for (int i = 0; i < BATCH; i++) label[i] = i % 3;
  if (only_threads) n_steps = 5;
  test_threads();
  test_wandering();
  if (only_threads) return failures > 0;
  test_allocations();
  test_refused();
  test_churn(argc > 1 ? atoi(argv[1]) : 10000);
  return failures > 0;
}
