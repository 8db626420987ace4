// Writes the data files of the test program mlp and spoiled versions of them: make_data FOLDER.
//   good/      605 train and 103 eval records, neither a multiple of the batch
//   missing/ truncated/ badmagic/ badgzip/ shape/ label/ mismatch/ long/: each with one fault in the train files
// The class of an image is the row of bright pixels in it, but every tenth label is wrong.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

typedef struct Bytes {
  size_t n;
  unsigned char *p;
} Bytes;

static void put(Bytes *b, unsigned char c) {
  b->p = realloc(b->p, b->n + 1);
  b->p[b->n++] = c;
}

static void put_size(Bytes *b, uint32_t v) {
  for (int s = 24; s >= 0; s -= 8) put(b, (unsigned char)(v >> s));
}

static void write_file(const char *folder, const char *name, const Bytes *b, int compress) {
  char path[4096];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  gzFile f = gzopen(path, compress ? "wb" : "wbT");
  if (!f || gzwrite(f, b->p, (unsigned)b->n) != (int)b->n || gzclose(f) != Z_OK) {
    fprintf(stderr, "cannot write %s\n", path);
    exit(1);
  }
}

static Bytes make_images(int n, int width) {
  Bytes b = {0};
  const unsigned char magic[] = {0, 0, 8, 3};
  for (int i = 0; i < 4; i++) put(&b, magic[i]);
  put_size(&b, (uint32_t)n), put_size(&b, 4), put_size(&b, (uint32_t)width);
  uint32_t random = (uint32_t)n;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < 4 * width; k++) {
      random = random * 1664525u + 1013904223u;
      put(&b, (unsigned char)((k / width == i % 3 ? 120 : 0) + (random >> 25)));
    }
  return b;
}

static Bytes make_labels(int n) {
  Bytes b = {0};
  const unsigned char magic[] = {0, 0, 8, 1};
  for (int i = 0; i < 4; i++) put(&b, magic[i]);
  put_size(&b, (uint32_t)n);
  for (int i = 0; i < n; i++) put(&b, (unsigned char)((i % 10 == 9 ? i + 1 : i) % 3));
  return b;
}

int main(int argc, char **argv) {
  if (argc != 2) return 2;
  static const char *const kinds[] = {"good",  "missing", "truncated", "badmagic", "badgzip",
                                      "shape", "label",   "mismatch",  "long"};
  for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
    char folder[4000];
    const char *kind = kinds[k];
    snprintf(folder, sizeof folder, "%s/%s", argv[1], kind);
    mkdir(argv[1], 0777);
    mkdir(folder, 0777);
    Bytes images = make_images(605, strcmp(kind, "shape") == 0 ? 5 : 4),
          labels = make_labels(strcmp(kind, "mismatch") == 0 ? 604 : 605);
    Bytes eval_images = make_images(103, 4), eval_labels = make_labels(103);
    if (strcmp(kind, "truncated") == 0) images.n = 16 + 600 * 16 + 3;
    if (strcmp(kind, "badmagic") == 0) images.p[2] = 0x77;
    if (strcmp(kind, "label") == 0) labels.p[8 + 417] = 3;
    if (strcmp(kind, "long") == 0) put(&labels, 0);
    if (strcmp(kind, "missing") != 0) write_file(folder, "train-images.idx.gz", &images, 1);
    write_file(folder, "train-labels.idx", &labels, 0);
    write_file(folder, "eval-images.idx", &eval_images, 0);
    write_file(folder, "eval-labels.idx", &eval_labels, 0);
    if (strcmp(kind, "badgzip") == 0) {
      strcat(folder, "/train-images.idx.gz");
      FILE *f = fopen(folder, "r+b");
      if (!f) return 1;
      fseek(f, 2000, SEEK_SET);
      for (int i = 0; i < 64; i++) fputc(0xff, f);
      fclose(f);
    }
    free(images.p), free(labels.p), free(eval_images.p), free(eval_labels.p);
  }
  return 0;
}
