// The runtime's parts on their own: Philox against published vectors, shuffling, schedules, initial values, roundings,
// the data readers, and safetensors headers spoiled at random, which must end in an error and never in
// a crash.
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/runtime.h"
#include "runtime/training.h"
#include "test/check.h"

static double by_hand(double step, double steps) { return step / (4 * steps); }
static const NncGroup groups[] = {{.lr = 0.1, .beta1 = 0.9, .beta2 = 0.99},
                                  {.lr = 0.01, .beta1 = 0.5, .beta2 = 0.5},
                                  {.lr = 1, .beta1 = 0.5, .beta2 = 0.5, .rate = by_hand}};
static const char *const names[] = {"x", "y"};
static const char *const files[] = {"x.npy", "y.npy"};
static const NncData data[] = {{.split = "train",
                                .reader = "npy",
                                .n_names = 2,
                                .names = names,
                                .n_files = 2,
                                .files = files,
                                .begin_permille = 200,
                                .end_permille = 1000}};
static double schedule(double step, double steps) { return step / steps; }
const NncProgram nnc_program = {.model = "test",
                                .source = "test.nn",
                                .device = &nnc_device_host,
                                .schedule = schedule,
                                .n_groups = 3,
                                .groups = groups,
                                .accumulate = 1,
                                .n_data = 1,
                                .data = data};

static char *folder;

static char *in_folder(const char *name) { return xasprintf("%s/%s", folder, name); }

static void write_bytes(const char *path, const void *bytes, size_t n) {
  FILE *f = fopen(path, "wb");
  if (!f || fwrite(bytes, 1, n, f) != n || fclose(f) != 0) abort();
}

// ---------------------------------------------------------------------------------------------------------------------

static void test_philox(void) {
  // Known answers of the Random123 distribution (kat_vectors, philox4x32 10).
  static const uint32_t kat[3][10] = {
      {0, 0, 0, 0, 0, 0, 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8},
      {~0u, ~0u, ~0u, ~0u, ~0u, ~0u, 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd},
      {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xa4093822, 0x299f31d0, 0xd16cfe09, 0x94fdcceb, 0x5001e420,
       0x24126ea1},
  };
  for (int i = 0; i < 3; i++) {
    uint32_t out[4];
    philox4x32(kat[i], kat[i] + 4, out);
    CHECK(memcmp(out, kat[i] + 6, sizeof out) == 0, "vector %d: %08x %08x %08x %08x", i, out[0], out[1], out[2],
          out[3]);
  }
  double sum = 0, squares = 0;
  int n = 100000;
  for (int i = 0; i < n; i++) {
    double v = philox_normal(7, 3, (uint64_t)i);
    sum += v, squares += v * v;
  }
  CHECK(fabs(sum / n) < 0.02 && fabs(squares / n - 1) < 0.02, "mean %g variance %g", sum / n, squares / n);
}

static void test_permutation(void) {
  enum { N = 1000 };
  static uint32_t a[N], b[N];
  static int seen[N], first[10];
  philox_permutation(1, 0, a, N);
  for (int i = 0; i < N; i++) seen[a[i]]++;
  bool once = true;
  for (int i = 0; i < N; i++) once &= seen[i] == 1;
  CHECK(once, "every index once");
  philox_permutation(1, 0, b, N);
  CHECK(memcmp(a, b, sizeof a) == 0, "the same again");
  philox_permutation(1, 1, b, N);
  CHECK(memcmp(a, b, sizeof a) != 0, "another epoch");
  philox_permutation(2, 0, b, N);
  CHECK(memcmp(a, b, sizeof a) != 0, "another seed");
  for (int e = 0; e < 10000; e++) {
    philox_permutation(3, (uint64_t)e, b, 10);
    first[b[0]]++;
  }
  for (int i = 0; i < 10; i++) CHECK(abs(first[i] - 1000) < 150, "%d came first %d times of 10000", i, first[i]);
}

static void test_schedule(void) {
  CHECK(schedule_rate(0, 4, 20) == 0.1 * 0.25, "a step is counted from 1");
  double hyper[12];
  schedule_fill(hyper, 12, 0, 4, 5);
  CHECK(hyper[0] == 0.1 && hyper[3] == 0.01 && hyper[6] == 0.25, "rates of the groups");
  CHECK(fabs(hyper[1] - (1 - pow(0.9, 5))) < 1e-15 && fabs(hyper[5] - (1 - pow(0.5, 5))) < 1e-15, "bias corrections");
  CHECK(hyper[9] == 1, "the only micro-batch is all of a step");
  CHECK(hyper[10] == 1 && hyper[11] == 5, "the only rank is the last, and the step is counted from 1");
  schedule_set_rate(hyper, 0.2);
  CHECK(hyper[0] == 0.2 && fabs(hyper[3] - 0.02) < 1e-15 && hyper[6] == 0.5,
        "%g %g: the groups beside a rate of the library", hyper[3], hyper[6]);
}

static void test_init(void) {
  static char arena[2][4096];
  static const char *const good[] = {"zeros",          "ones",          "constant(2.5)",  "normal(0.5)",
                                     "normal(1, 0.5)", "uniform(-1,3)", "constant(-1e-3)"};
  static const char *const bad[] = {"one",          "normal",          "normal()", "uniform(1)", "constant(1",
                                    "constant(1)x", "constant(1,2,3)", "zeros(1)", "("};
  NncTensor t = {.name = "w", .dtype = NNC_F64, .rank = 2, .dim = {12, 10}, .bytes = 960};
  for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
    t.init = good[i];
    CHECK(init_tensor(&t, &(Arena){.base = arena[0]}, 1), "%s", good[i]);
  }
  const double *v = (const double *)arena[0];
  CHECK(v[0] == -1e-3 && v[119] == -1e-3, "constant");
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    t.init = bad[i];
    CHECK(!init_tensor(&t, &(Arena){.base = arena[0]}, 1), "%s is no initialiser", bad[i]);
  }
  t.init = "normal(5, 0.01)";
  CHECK(init_tensor(&t, &(Arena){.base = arena[0]}, 1), "normal");
  for (int i = 0; i < 120; i++) CHECK(fabs(v[i] - 5) < 0.1, "the mean first: %g", v[i]);
  t.init = "uniform(-1,3)";
  CHECK(init_tensor(&t, &(Arena){.base = arena[0]}, 1), "uniform");
  for (int i = 0; i < 120; i++) CHECK(v[i] >= -1 && v[i] < 3, "range");
}

// ---------------------------------------------------------------------------------------------------------------------

static void write_npy(const char *name, const char *descr, const char *shape, const void *values, size_t bytes) {
  char header[128];
  memset(header, ' ', sizeof header);
  memcpy(header, "\x93NUMPY\1\0\x76\0", 10);
  int n = snprintf(header + 10, 118, "{'descr': '%s', 'fortran_order': False, 'shape': %s, }", descr, shape);
  header[10 + n] = ' ';
  header[127] = '\n';
  char *path = in_folder(name), *all = xmalloc(128 + bytes);
  memcpy(all, header, 128);
  memcpy(all + 128, values, bytes);
  write_bytes(path, all, 128 + bytes);
  free(all), free(path);
}

static void test_npy(void) {
  float x[10][3];
  int64_t y[10];
  for (int i = 0; i < 10; i++) {
    y[i] = i % 5;
    for (int k = 0; k < 3; k++) x[i][k] = (float)(10 * i + k);
  }
  write_npy("x.npy", "<f4", "(10, 3)", x, sizeof x);
  write_npy("y.npy", "<i8", "(10,)", y, sizeof y);
  const NncTensor args[] =
      {{.name = "x", .role = NNC_INPUT, .dtype = NNC_F64, .rank = 2, .dim = {4, 3}, .bytes = 96, .offset = 0},
       {.name = "y",
        .role = NNC_INPUT,
        .dtype = NNC_I32,
        .rank = 1,
        .dim = {4},
        .bytes = 16,
        .offset = 128,
        .limit = 5}};
  NncFunction f = {.name = "train", .n_args = 2, .args = args};
  Dataset d;
  CHECK(dataset_load("train", &f, folder, &d), "load");
  CHECK(d.records == 8 && d.bytes == 8 * (12 + 8), "the last 800 of 1000: %lld records, %lld bytes",
        (long long)d.records, (long long)d.bytes);
  double arena[32];
  dataset_fill(&d, &f, 6, 7, (char *)arena);
  const int32_t *label = (const int32_t *)((char *)arena + 128);
  CHECK(arena[0] == 80 && arena[3] == 90 && arena[6] == 90 && arena[11] == 92, "%g %g %g %g", arena[0], arena[3],
        arena[6], arena[11]);
  CHECK(label[0] == 3 && label[1] == 4 && label[2] == 4, "labels");
  dataset_shuffle(&d, 5, 0);
  dataset_fill(&d, &f, 0, 0, (char *)arena);
  CHECK(arena[0] == 20 + 10 * d.order[0], "order");
  dataset_free(&d);

  y[7] = 5;
  write_npy("y.npy", "<i8", "(10,)", y, sizeof y);
  CHECK(!dataset_load("train", &f, folder, &d), "label 5 of 5 classes");
  y[7] = -1;
  write_npy("y.npy", "<i8", "(10,)", y, sizeof y);
  CHECK(!dataset_load("train", &f, folder, &d), "label -1");
  static const char *const shapes[] = {"(11,)",  "()", "(10", "(1, 1, 1, 1, 1, 1, 1, 1, 1, 1)", "(9999999999999999,)",
                                       "(10, 0)"};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
    write_npy("y.npy", "<i8", shapes[i], y, sizeof y);
    CHECK(!dataset_load("train", &f, folder, &d), "shape %s", shapes[i]);
  }
  write_npy("y.npy", ">i8", "(10,)", y, sizeof y);
  CHECK(!dataset_load("train", &f, folder, &d), "big-endian");
  write_npy("y.npy", "<f4", "(10,)", x, 40);
  CHECK(!dataset_load("train", &f, folder, &d), "floats for an integer input");
}

static void test_bytes(void) {
  char *path = in_folder("text");
  write_bytes(path, "0123456789abcdef", 16);
  DataSource s = {.path = path, .begin_permille = 0, .end_permille = 1000};
  Column tokens, targets;
  CHECK(data_read_bytes(&s, &tokens) && data_cut_text(5, &tokens, &targets), "read");
  CHECK(tokens.records == 3 && memcmp(tokens.values + 2 * tokens.record_bytes, "abcde", 5) == 0, "the last record");
  CHECK(memcmp(targets.values + 2 * targets.record_bytes, "bcdef", 5) == 0, "its targets");
  free(tokens.block), free(tokens.path), free(targets.path);
  s.begin_permille = 500;
  CHECK(data_read_bytes(&s, &tokens) && data_cut_text(5, &tokens, NULL) && tokens.records == 1 &&
            memcmp(tokens.values, "89abc", 5) == 0,
        "the second half");
  free(tokens.block), free(tokens.path);
  CHECK(data_read_bytes(&s, &tokens) && !data_cut_text(8, &tokens, NULL), "too short");
  free(tokens.block), free(tokens.path), free(path);
}

// ---------------------------------------------------------------------------------------------------------------------

static void test_safetensors(void) {
  char *path = in_folder("a.safetensors");
  int64_t dim[2] = {2, 3};
  float v[6] = {1, 2, 3, 4, 5, 6}, back[6];
  SafetensorsWriter *w = safetensors_create(path);
  safetensors_add_metadata(w, "key \"quoted\"", "a\\b\n");
  safetensors_declare(w, "p.w", NNC_F32, 2, dim);
  safetensors_declare(w, "scalar", NNC_I64, 0, NULL);
  int64_t scalar = 42, scalar_back = 0;
  CHECK(safetensors_begin(w) && safetensors_put(w, 1, 0, &scalar, 8) && safetensors_put(w, 0, 0, v, 12) &&
            safetensors_put(w, 0, 12, v + 3, 12),
        "put");
  CHECK(safetensors_commit(w), "commit");
  Safetensors s;
  CHECK(safetensors_open(path, &s) && s.n_entries == 2 && s.has_sums, "open");
  const SafetensorsEntry *e = safetensors_find(&s, "p.w"), *k = safetensors_find(&s, "scalar");
  CHECK(e && e->rank == 2 && e->dim[1] == 3 && safetensors_read(&s, e, 0, 24, back) && memcmp(v, back, 24) == 0,
        "values");
  CHECK(k && k->rank == 0 && safetensors_read(&s, k, 0, 8, &scalar_back) && scalar_back == 42, "scalar");
  CHECK(safetensors_metadata(&s, "key \"quoted\"") && strcmp(safetensors_metadata(&s, "key \"quoted\""), "a\\b\n") == 0,
        "metadata");
  safetensors_close(&s);
  // An abandoned file leaves the old one.
  w = safetensors_create(path);
  safetensors_declare(w, "q", NNC_F32, 2, dim);
  CHECK(safetensors_begin(w), "begin");
  safetensors_abandon(w);
  CHECK(safetensors_open(path, &s) && safetensors_find(&s, "p.w"), "the old file");
  safetensors_close(&s);
  free(path);
}

// Random damage: opening succeeds or fails with a message, and what it accepts can be read.
static void test_damaged_safetensors(void) {
  char *good = in_folder("a.safetensors"), *path = in_folder("b.safetensors");
  char bytes[512], spoiled[512], sink[512];
  FILE *f = fopen(good, "rb");
  size_t n = f ? fread(bytes, 1, sizeof bytes, f) : 0;
  CHECK(n > 100, "a small file");
  fclose(f);
  // Without checksums, whose keys become others: nearly nothing would be accepted.
  for (size_t i = 0; i + 8 < n; i++)
    if (!memcmp(bytes + i, "checksum", 8)) bytes[i] = 'k';
    else if (!memcmp(bytes + i, "\"xxh3\":", 7)) bytes[i + 1] = 'k';
  int accepted = 0;
  for (uint64_t i = 0; i < 3000; i++) {
    memcpy(spoiled, bytes, n);
    for (uint64_t k = 0; k <= i % 4; k++)
      spoiled[philox_u64(i, k, 0) % n] = "{}[]\",:\\u0a9-\xff\0"[philox_u64(i, k, 1) % 16];
    size_t length = i % 5 == 0 ? philox_u64(i, 9, 0) % n : n;
    write_bytes(path, spoiled, length);
    Safetensors s;
    if (!safetensors_open(path, &s)) continue;
    accepted++;
    for (int k = 0; k < s.n_entries; k++)
      if (s.entries[k].bytes <= (int64_t)sizeof sink &&
          !safetensors_read(&s, &s.entries[k], 0, s.entries[k].bytes, sink))
        CHECK(0, "read");
    safetensors_close(&s);
  }
  CHECK(accepted > 0 && accepted < 3000, "%d of 3000 accepted", accepted);
  // Nesting and huge numbers.
  static const char *const headers[] = {
      "{\"a\":{\"dtype\":\"F32\",\"shape\":[4611686018427387904,4],\"data_offsets\":[0,8]}}",
      "{\"a\":{\"dtype\":\"F32\",\"shape\":[99999999999999999999],\"data_offsets\":[0,8]}}",
      "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,0]}}",
      "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,800]}}",
      "{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,2],\"data_offsets\":[0,8]}}",
      "{\"a\":{\"x\":[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[",
      "{\"a\":{\"dtype\":\"F32\"}}",
      "[]",
      "{",
      "{\"a\"}",
      "{\"\\ud800\":{}}",
  };
  for (size_t i = 0; i < sizeof headers / sizeof *headers; i++) {
    size_t length = strlen(headers[i]);
    memset(spoiled, 0, sizeof spoiled);
    spoiled[0] = (char)length;
    memcpy(spoiled + 8, headers[i], length);
    write_bytes(path, spoiled, 8 + length + 8);
    Safetensors s;
    CHECK(!safetensors_open(path, &s), "%s", headers[i]);
  }
  // Names may be written with escapes; a tensor may be of one byte.
  const char header[] =
      "{\"\\u0041\\u00e9\\u20ac\\ud83d\\ude00\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}";
  memset(spoiled, 0, sizeof spoiled);
  spoiled[0] = (char)strlen(header);
  memcpy(spoiled + 8, header, strlen(header));
  spoiled[8 + strlen(header)] = 7;
  write_bytes(path, spoiled, 8 + (int64_t)strlen(header) + 1);
  Safetensors s;
  uint8_t value = 0;
  CHECK(safetensors_open(path, &s) && s.n_entries == 1, "escapes");
  CHECK(!strcmp(s.entries[0].name, "A\u00e9\u20ac\U0001f600"), "'%s'", s.entries[0].name);
  CHECK(safetensors_read(&s, &s.entries[0], 0, 1, &value) && value == 7, "one byte: %d", value);
  safetensors_close(&s);
  free(good), free(path);
}

// What lies a little to either side of the middle of two neighbours goes to the nearer one, the middle itself to the
// even one: for all neighbours, from a type in which the middle has digits to spare for that.
static void test_narrow(void) {
  static const struct {
    NncDtype type;
    uint16_t infinite;
  } types[] = {{NNC_BF16, 0x7f80}, {NNC_F16, 0x7c00}};
  for (int t = 0; t < 2; t++) {
    int wrong = 0;
    double last = 0;
    for (uint16_t low = 0; low + 1 < types[t].infinite; low++) {
      uint16_t pair[2] = {low, (uint16_t)(low + 1)}, to[4];
      double v[2];
      convert_elements(types[t].type, pair, NNC_F64, v, 2);
      double middle = (v[0] + v[1]) / 2,
             from[4] = {nextafter(middle, 0), middle, nextafter(middle, 2 * v[1]), -nextafter(middle, 2 * v[1])};
      convert_elements(NNC_F64, from, types[t].type, to, 4);
      wrong += to[0] != low || to[1] != low + (low & 1) || to[2] != low + 1 || to[3] != ((low + 1) | 0x8000);
      last = v[1] + (v[1] - v[0]) / 2;
    }
    uint16_t to[3];
    convert_elements(NNC_F64, (double[]){nextafter(last, 0), last, -1e300}, types[t].type, to, 3);
    CHECK(wrong == 0 && to[0] == types[t].infinite - 1 && to[1] == types[t].infinite &&
              to[2] == (types[t].infinite | 0x8000),
          "%s: %d of all middles, the ends %04x %04x %04x", dtype_name(types[t].type), wrong, to[0], to[1], to[2]);
  }
  // f32 does not hold the second, bf16 neither
  int32_t middle[3] = {(1 << 24) + (1 << 16), (1 << 24) + (1 << 16) + 1, 3};
  uint16_t to[3];
  convert_elements(NNC_I32, middle, NNC_BF16, to, 3);
  CHECK(to[0] == 0x4b80 && to[1] == 0x4b81 && to[2] == 0x4040, "integers: %04x %04x %04x", to[0], to[1], to[2]);
}

// Of two tokens with a probability of exactly a half each, the first alone makes up a half.
static void test_draw(void) {
  const DrawOptions half = {.temperature = 1, .top_p = 0.5}, more = {.temperature = 1, .top_p = 0.75},
                    nearly = {.temperature = 1, .top_p = 1 - 0x1p-53};
  CHECK(draw_token((double[]){0, 0}, 2, &half, 0.9) == 0, "the nucleus goes on behind its share");
  CHECK(draw_token((double[]){0, 0}, 2, &more, 0.9) == 1, "the nucleus ends before its share");
  const DrawOptions likeliest = {.temperature = 0, .top_p = 1};
  CHECK(draw_token((double[]){-INFINITY, 1, 2}, 3, &likeliest, 0) == 2, "the likeliest");
  CHECK(draw_token((double[]){0, 1, NAN}, 3, &likeliest, 0) == -1, "a NaN beside the likeliest");
  CHECK(draw_token((double[]){-INFINITY, -INFINITY}, 2, &likeliest, 0) == -1, "no token is possible");
  for (int i = 0; i < 2; i++)
    CHECK(draw_token((double[]){0, 3, 1}, 3, &half, i * 0.99) == 1, "%g: more than half is one token's", i * 0.99);
  CHECK(draw_token((double[14]){0}, 14, &nearly, 0.999) == 13, "14 times a 14th, which is less than 1 by rounding");
}

int main(void) {
  report_set_name("test_runtime");
  char template[] = "test-runtime-XXXXXX";
  folder = mkdtemp(template);
  if (!folder) return 1;
  FILE *quiet = freopen("/dev/null", "w", stderr);   // the messages of refused files
  (void)quiet;
  test_philox();
  test_permutation();
  test_schedule();
  test_init();
  test_narrow();
  test_draw();
  test_npy();
  test_bytes();
  test_safetensors();
  test_damaged_safetensors();
  static const char *const made[] = {"x.npy", "y.npy", "text", "a.safetensors", "b.safetensors"};
  for (size_t i = 0; i < sizeof made / sizeof *made; i++) {
    char *path = in_folder(made[i]);
    unlink(path);
    free(path);
  }
  CHECK(rmdir(folder) == 0, "nothing else was left");
  return check_report();
}
