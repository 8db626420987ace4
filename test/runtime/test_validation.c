// The records that are left out of the training: with the rest they are all, none is in both, the program's seed
// chooses them, and of a text that is read in order they are its end; how much of it is read ahead, and what a thread
// does there that cannot go on.
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/runtime.h"
#include "test/check.h"

enum { RECORDS = 40, LEFT_OUT = 10 };
static const char *const names[] = {"x"};
static const char *files[] = {"x.idx"};
// The second line is none of the program's.
static NncData data[2] = {{.split = "train",
                           .reader = "idx",
                           .n_names = 1,
                           .names = names,
                           .n_files = 1,
                           .files = (const char *const *)files,
                           .end_permille = 1000,
                           .sequence = 2}};
// A program's table is constant; the test changes the seed and the part that is left out.
static NncProgram changeable = {.model = "test",
                                .source = "test.nn",
                                .device = &nnc_device_host,
                                .n_data = 1,
                                .data = data,
                                .validation = 0.25,
                                .seed = 3};
extern const NncProgram nnc_program __attribute__((alias("changeable")));

static const NncTensor arg =
    {.name = "x", .role = NNC_INPUT, .dtype = NNC_U8, .rank = 1, .dim = {RECORDS}, .bytes = RECORDS};
static const NncFunction f = {.name = "train", .n_args = 1, .args = &arg};

// How often each record is in a data set of n; they are numbered by their value.
static void count(const Dataset *d, int64_t n, int seen[RECORDS]) {
  unsigned char values[RECORDS];
  dataset_fill(d, &f, 0, 0, (char *)values);
  for (int64_t i = 0; i < n; i++) seen[values[i]]++;
}

static void left_out(const char *folder, int seen[RECORDS]) {
  Dataset train, validation;
  CHECK(dataset_load("train", &f, folder, &train), "load");
  dataset_validation(&train, &f, &validation);
  CHECK(train.records == RECORDS - LEFT_OUT && validation.records == LEFT_OUT, "%d and %d records", (int)train.records,
        (int)validation.records);
  memset(seen, 0, sizeof(int) * RECORDS);
  count(&validation, validation.records, seen);
  for (uint64_t epoch = 0; epoch < 2; epoch++) {
    int all[RECORDS];
    memcpy(all, seen, sizeof all);
    dataset_shuffle(&train, 9, epoch);
    count(&train, train.records, all);
    bool once = true;
    for (int i = 0; i < RECORDS; i++) once &= all[i] == 1;
    CHECK(once, "each record once, in epoch %d", (int)epoch);
  }
  dataset_free(&validation);
  dataset_free(&train);
}

static void test_text(const char *folder) {
  files[0] = "text";
  data[0].reader = "bytes", data[0].continued = true;
  NncTensor tokens = {.name = "x", .role = NNC_INPUT, .dtype = NNC_U8, .rank = 2, .dim = {5, 2}, .bytes = 10};
  NncFunction g = {.name = "train", .n_args = 1, .args = &tokens};
  Dataset train, validation;
  unsigned char rows[5][2];
  CHECK(dataset_load("train", &g, folder, &train), "load");   // 41 bytes: 20 records of two
  dataset_validation(&train, &g, &validation);
  CHECK(train.records == 15 && validation.records == 5, "%d and %d records", (int)train.records,
        (int)validation.records);
  dataset_fill(&validation, &g, 0, 0, (char *)rows);
  CHECK(rows[0][0] == 30 && rows[4][1] == 39, "the end of the text: %d to %d", rows[0][0], rows[4][1]);
  dataset_fill(&train, &g, 5, 5, (char *)rows);
  CHECK(rows[0][0] == 2 && rows[4][0] == 26, "rows go on in their own parts of the rest: %d, %d", rows[0][0],
        rows[4][0]);
  dataset_free(&validation);
  dataset_free(&train);
}

// What is read ahead is what the lines of the program ask for.
static int64_t bytes_ahead(const char *folder, const char *split) {
  Dataset d;
  data[1] = (NncData){.split = split, .num_workers = 2, .prefetch_factor = 5};
  CHECK(dataset_load("train", &f, folder, &d), "load");
  int64_t bytes = d.bytes;
  dataset_free(&d);
  return bytes;
}

static void test_ahead(const char *folder) {
  files[0] = "x.idx";
  data[0].reader = "idx", data[0].continued = false, data[0].num_workers = 1, data[0].prefetch_factor = 2;
  int64_t bytes = bytes_ahead(folder, "train");
  CHECK(bytes > 0 && bytes == bytes_ahead(folder, "test"), "%d bytes ahead", (int)bytes);
}

static bool give_up(const Column *c, int64_t record, void *room, char *to) {
  (void)c, (void)room, (void)to;
  report_internal("record %d", (int)record);
}

static char heard[64];

static void hear(Listener *l, bool is_error, const char *message) {
  (void)l, (void)is_error;
  snprintf(heard, sizeof heard, "%s", message);
}

// A thread that cannot go on ends nothing: whoever takes its batch hears why, and gives up where a caller wants that.
static void test_giving_up(const char *folder, bool skip_broken) {
  Listener listener = {.hear = hear};
  jmp_buf escape;
  unsigned char values[RECORDS];
  Dataset d;
  data[1] = (NncData){.split = "test"};
  data[0].skip_broken = skip_broken;
  heard[0] = 0;
  CHECK(dataset_load("train", &f, folder, &d), "load");
  data[0].skip_broken = false;
  d.columns[0].fetch = give_up;   // no thread reads before a batch is asked for
  report_listen(&listener);
  report_give_up_to(&escape);
  if (!setjmp(escape)) CHECK(!dataset_fill(&d, &f, 0, 0, (char *)values), "a record");
  report_give_up_to(NULL);
  report_listen(NULL);
  CHECK(!strcmp(heard, "record 0") && listener.cause == NNC_ERROR_INTERNAL, "heard: %s", heard);
  dataset_free(&d);
}

int main(void) {
  char folder[] = "/tmp/nnc-validation-XXXXXX", bytes[41];
  int a[RECORDS], b[RECORDS];
  if (!mkdtemp(folder)) return 1;
  static const unsigned char head[] = {0, 0, 8, 1, 0, 0, 0, RECORDS};
  for (int i = 0; i < 41; i++) bytes[i] = (char)i;
  char *x = xasprintf("%s/x.idx", folder), *text = xasprintf("%s/text", folder);
  FILE *to_x = fopen(x, "wb"), *to_text = fopen(text, "wb");
  if (!to_x || !to_text) return 1;
  fwrite(head, 1, sizeof head, to_x), fwrite(bytes, 1, RECORDS, to_x), fwrite(bytes, 1, 41, to_text);
  fclose(to_x), fclose(to_text);
  left_out(folder, a);
  left_out(folder, b);
  CHECK(memcmp(a, b, sizeof a) == 0, "the same again");
  changeable.seed = 4;
  left_out(folder, b);
  CHECK(memcmp(a, b, sizeof a) != 0, "another seed");
  int in_order = 1;
  for (int i = 1; i < RECORDS; i++) in_order += a[i] != a[i - 1];
  CHECK(in_order > 4, "not one piece");
  test_text(folder);
  test_ahead(folder);
  test_giving_up(folder, false);
  test_giving_up(folder, true);
  freopen("/dev/null", "w", stderr);
  Dataset d;
  changeable.validation = 0.01;
  CHECK(!dataset_load("train", &f, folder, &d), "none to evaluate");
  unlink(x), unlink(text), rmdir(folder);
  free(x), free(text);
  return check_report();
}
