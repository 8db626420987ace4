// Images between the file and the arena: mirrored and cut by draws of seed, epoch and record, normalised channel by
// channel. Known bytes for a seed, and what must hold for any: the same again, other epochs differ, a mirror twice is
// none, evaluation sees the file.
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/runtime.h"
#include "test/check.h"

enum { RECORDS = 6, CHANNELS = 2, HEIGHT = 3, WIDTH = 4, PIXELS = CHANNELS * HEIGHT * WIDTH };
static const char *const names[] = {"image"};
static const char *const files[] = {"images.idx"};
// A data line of the one file, from `begin` permille on; with what else it says.
#define IMAGES(split_, begin, ...)                                                                  \
  {                                                                                                 \
    .split = (split_), .reader = "idx", .n_names = 1, .names = names, .n_files = 1, .files = files, \
    .begin_permille = (begin), .end_permille = 1000, __VA_ARGS__                                    \
  }
#define AUGMENTED .n_flipped = 1, .flipped = names, .flip = 0.5, .n_cropped = 1, .cropped = names, .crop = 1
static const NncData data[] = {IMAGES("train", 0, AUGMENTED), IMAGES("later", 500, AUGMENTED), IMAGES("eval", 0, )};
const NncProgram nnc_program = {.model = "test",
                                .source = "test.nn",
                                .device = &nnc_device_host,
                                .n_data = 3,
                                .data = data};
static unsigned char image[RECORDS][CHANNELS][HEIGHT][WIDTH];

static void write_images(const char *folder) {
  static const unsigned char head[] = {0, 0,        8, 4, 0, 0,      0, RECORDS, 0, 0,
                                       0, CHANNELS, 0, 0, 0, HEIGHT, 0, 0,       0, WIDTH};
  char *path = xasprintf("%s/images.idx", folder);
  FILE *f = fopen(path, "wb");
  for (int i = 0; i < RECORDS * PIXELS; i++) ((unsigned char *)image)[i] = (unsigned char)(i + 1);
  if (!f || fwrite(head, 1, sizeof head, f) != sizeof head || fwrite(image, 1, sizeof image, f) != sizeof image ||
      fclose(f) != 0)
    abort();
  free(path);
}

// The pixel at (y, x) of an image that was mirrored, then cut out of a border of one black pixel at (top, left).
static unsigned char expected(unsigned char plane[HEIGHT][WIDTH], bool mirror, int top, int left, int y, int x) {
  y += top - 1, x += left - 1;
  if (y < 0 || y >= HEIGHT || x < 0 || x >= WIDTH) return 0;
  return plane[y][mirror ? WIDTH - 1 - x : x];
}

static void test_moves(void) {
  static unsigned char once[CHANNELS][HEIGHT][WIDTH], twice[CHANNELS][HEIGHT][WIDTH];
  for (int mirror = 0; mirror < 2; mirror++)
    for (int top = 0; top < 3; top++)
      for (int left = 0; left < 3; left++) {
        augment_move((ImageMove){mirror, 1, top, left}, CHANNELS, HEIGHT, WIDTH, 1, (char *)image[1], (char *)once);
        bool same = true;
        for (int i = 0; i < PIXELS; i++)
          same &= ((unsigned char *)once)[i] ==
                  expected(image[1][i / (HEIGHT * WIDTH)], mirror, top, left, i / WIDTH % HEIGHT, i % WIDTH);
        CHECK(same, "mirror %d, top %d, left %d", mirror, top, left);
      }
  augment_move((ImageMove){.mirror = true}, CHANNELS, HEIGHT, WIDTH, 1, (char *)image[1], (char *)once);
  augment_move((ImageMove){.mirror = true}, CHANNELS, HEIGHT, WIDTH, 1, (char *)once, (char *)twice);
  CHECK(memcmp(once, image[1], sizeof once) != 0 && memcmp(twice, image[1], sizeof twice) == 0,
        "a mirror twice is none");
  float numbers[2][3] = {{1, 2, 3}, {4, 5, 6}}, moved[2][3];
  augment_move((ImageMove){.mirror = true}, 1, 2, 3, sizeof(float), (char *)numbers, (char *)moved);
  CHECK(moved[0][0] == 3 && moved[0][2] == 1 && moved[1][0] == 6, "elements of four bytes");
}

static void test_normalise(void) {
  static const double mean[] = {0.5, 10}, deviation[] = {0.25, 2};
  NncTensor t = {.name = "image", .dtype = NNC_F32, .n_channels = 2, .mean = mean, .deviation = deviation};
  unsigned char bytes[4] = {0, 255, 51, 255};
  float numbers[4] = {0.5f, 1, 10, 14}, out[4];
  stage_record(&t, NNC_U8, bytes, (char *)out, 4);
  CHECK(out[0] == -2 && out[1] == 2 && out[2] == (float)((0.2 - 10) / 2) && out[3] == -4.5f,
        "bytes are parts of 255: %g %g %g %g", out[0], out[1], out[2], out[3]);
  stage_record(&t, NNC_F32, numbers, (char *)out, 4);
  CHECK(out[0] == 0 && out[1] == 2 && out[2] == 0 && out[3] == 2, "numbers are taken as they are");
}

// What the definition gives for each record of an epoch, in the order of the shuffle.
static void test_epochs(const char *folder) {
  const NncTensor arg = {.name = "image",
                         .role = NNC_INPUT,
                         .dtype = NNC_U8,
                         .rank = 4,
                         .dim = {RECORDS, CHANNELS, HEIGHT, WIDTH},
                         .bytes = RECORDS * PIXELS};
  NncFunction f = {.name = "train", .n_args = 1, .args = &arg};
  static unsigned char arena[4][RECORDS][CHANNELS][HEIGHT][WIDTH];
  static uint32_t order[RECORDS];
  Dataset d;
  CHECK(dataset_load("train", &f, folder, &d), "load");
  int mirrored = 0;
  for (uint64_t epoch = 0; epoch < 3; epoch++) {
    dataset_shuffle(&d, 7, epoch);
    dataset_fill(&d, &f, 0, 0, (char *)arena[epoch]);
    philox_permutation(7, philox_stream("shuffle") + epoch, order, RECORDS);
    bool same = true;
    for (int i = 0; i < RECORDS; i++) {
      bool mirror = philox_uniform(7, philox_stream("flip") + epoch, order[i]) < 0.5;
      uint64_t bits = philox_u64(7, philox_stream("crop") + epoch, order[i]);
      int top = (int)((bits >> 32) * 3 >> 32), left = (int)((bits & 0xffffffff) * 3 >> 32);
      mirrored += mirror;
      for (int k = 0; k < PIXELS; k++)
        same &= ((unsigned char *)arena[epoch][i])[k] ==
                expected(image[order[i]][k / (HEIGHT * WIDTH)], mirror, top, left, k / WIDTH % HEIGHT, k % WIDTH);
    }
    CHECK(same, "epoch %d", (int)epoch);
  }
  CHECK(mirrored > 3 && mirrored < 15, "%d of 18 mirrored", mirrored);
  CHECK(memcmp(arena[0], arena[1], sizeof arena[0]) != 0, "another epoch");
  dataset_shuffle(&d, 7, 1);
  dataset_fill(&d, &f, 0, 0, (char *)arena[3]);
  CHECK(memcmp(arena[1], arena[3], sizeof arena[0]) == 0, "the same epoch again");
  // A record alone is moved as in its batch.
  const NncTensor one = {.name = "image",
                         .role = NNC_INPUT,
                         .dtype = NNC_U8,
                         .rank = 4,
                         .dim = {1, CHANNELS, HEIGHT, WIDTH},
                         .bytes = PIXELS};
  NncFunction single = {.name = "train", .n_args = 1, .args = &one};
  dataset_fill(&d, &single, 4, 4, (char *)arena[3]);
  CHECK(memcmp(arena[1][4], arena[3], PIXELS) == 0, "whatever the batch");
  static const unsigned char known[HEIGHT][WIDTH] = {{52, 51, 50, 49}, {56, 55, 54, 53}, {60, 59, 58, 57}};
  CHECK(memcmp(arena[0][0][0], known, sizeof known) == 0, "the first image of the first epoch: %d %d %d %d …",
        arena[0][0][0][0][0], arena[0][0][0][0][1], arena[0][0][0][0][2], arena[0][0][0][0][3]);
  dataset_free(&d);
  CHECK(dataset_load("eval", &f, folder, &d), "load");
  dataset_fill(&d, &f, 0, 0, (char *)arena[3]);
  CHECK(memcmp(arena[3], image, sizeof image) == 0, "evaluation sees the file");
  dataset_free(&d);
}

// Records are numbered as in the file, also where a data set begins further on (begin=).
static void test_begin(const char *folder) {
  enum { FIRST = RECORDS / 2, SOME = RECORDS - FIRST };
  const NncTensor arg = {.name = "image",
                         .role = NNC_INPUT,
                         .dtype = NNC_U8,
                         .rank = 4,
                         .dim = {SOME, CHANNELS, HEIGHT, WIDTH},
                         .bytes = SOME * PIXELS};
  NncFunction f = {.name = "train", .n_args = 1, .args = &arg};
  static unsigned char arena[SOME][CHANNELS][HEIGHT][WIDTH], moved[CHANNELS][HEIGHT][WIDTH];
  uint32_t order[SOME];
  Dataset d;
  CHECK(dataset_load("later", &f, folder, &d) && d.records == SOME, "load");
  for (uint64_t epoch = 0; epoch < 5; epoch++) {
    dataset_shuffle(&d, 7, epoch);
    dataset_fill(&d, &f, 0, 0, (char *)arena);
    philox_permutation(7, philox_stream("shuffle") + epoch, order, SOME);
    for (int i = 0; i < SOME; i++) {
      int record = FIRST + (int)order[i];
      augment_move(augment_draw(&d.columns[0], 7, epoch, record), CHANNELS, HEIGHT, WIDTH, 1, (char *)image[record],
                   (char *)moved);
      CHECK(memcmp(arena[i], moved, sizeof moved) == 0, "record %d in epoch %d", record, (int)epoch);
    }
  }
  dataset_free(&d);
}

int main(void) {
  char folder[] = "/tmp/nnc-augment-XXXXXX";
  if (!mkdtemp(folder)) return 1;
  write_images(folder);
  test_moves();
  test_normalise();
  test_epochs(folder);
  test_begin(folder);
  char *path = xasprintf("%s/images.idx", folder);
  unlink(path), rmdir(folder), free(path);
  return check_report();
}
