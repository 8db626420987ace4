// Runs one kernel of LLVM IR (read_ptx.py makes it of PTX) in the emulator:
//   FILE.ll KERNEL GX,GY,GZ THREADS DYNAMIC_SHARED ARGUMENT...
// An argument is in:FILE, whose bytes are device memory; out:FILE:BYTES, memory of NaNs that is written to the file
// afterwards; inout:FILE, both; i32:N, i64:N, f32:X; null. NNC_TEST_EQUAL_STORES=1: what Triton's kernels do, warps
// that have copies of a value store all of them, is no race. Exits with 1 after printing what the emulator reports.
#include <stdlib.h>
#include <string.h>

#include "test/codegen/emulate.c"

enum { MOST = 64 };
typedef struct Buffer {
  const char *path;
  char *data;
  long bytes;
  bool written;
} Buffer;

static void read_file(Buffer *b) {
  FILE *f = fopen(b->path, "rb");
  if (!f || fseek(f, 0, SEEK_END) || (b->bytes = ftell(f)) < 0) die("cannot read", b->path);
  rewind(f);
  b->data = aligned_alloc(512, ((size_t)b->bytes + 511) / 512 * 512);
  if (!b->data || fread(b->data, 1, (size_t)b->bytes, f) != (size_t)b->bytes) die("cannot read", b->path);
  fclose(f);
}

static void write_file(const Buffer *b) {
  FILE *f = fopen(b->path, "wb");
  if (!f || fwrite(b->data, 1, (size_t)b->bytes, f) != (size_t)b->bytes || fclose(f)) die("cannot write", b->path);
}

static Buffer buffers[MOST];
static uint64_t scalars[MOST];

static bool starts_with(const char *text, const char *prefix) { return !strncmp(text, prefix, strlen(prefix)); }

static EmulateArgument argument(char *text, int i) {
  Buffer *b = &buffers[i];
  if (starts_with(text, "in")) {
    b->path = strchr(text, ':') + 1;
    b->written = starts_with(text, "inout:");
    read_file(b);
    return (EmulateArgument){b->path, b->data, (uint64_t)b->bytes};
  }
  if (starts_with(text, "out:")) {
    char *colon = strrchr(text, ':');
    *colon = 0;
    *b = (Buffer){.path = text + 4, .bytes = atol(colon + 1), .written = true};
    b->data = aligned_alloc(512, ((size_t)b->bytes + 511) / 512 * 512);
    memset(b->data, 0xff, (size_t)b->bytes);
    return (EmulateArgument){b->path, b->data, (uint64_t)b->bytes};
  }
  float x;
  if (starts_with(text, "i32:") || starts_with(text, "i64:")) scalars[i] = (uint64_t)atoll(text + 4);
  else if (starts_with(text, "f32:")) x = strtof(text + 4, NULL), memcpy(&scalars[i], &x, 4);
  else if (strcmp(text, "null") != 0) die("no such argument", text);
  return (EmulateArgument){text, &scalars[i], 0};
}

int main(int count, char **words) {
  static char message[4096];
  EmulateArgument arguments[MOST];
  // These kernels rely on what GPUs do: without static shared memory the dynamic part begins at a multiple of 1024.
  EmulateLaunch launch = {.arguments = arguments,
                          .equal_stores = getenv("NNC_TEST_EQUAL_STORES") != NULL,
                          .aligned_shared = true};
  if (count < 6 || count - 6 > MOST) die("usage", "FILE.ll KERNEL GX,GY,GZ THREADS DYNAMIC_SHARED ARGUMENT...");
  if (sscanf(words[3], "%u,%u,%u", &launch.grid[0], &launch.grid[1], &launch.grid[2]) != 3) die("no grid", words[3]);
  launch.block[0] = (uint32_t)atoi(words[4]);
  launch.dynamic_bytes = (uint32_t)atoi(words[5]);
  for (int i = 6; i < count; i++) arguments[launch.n++] = argument(words[i], i - 6);
  Buffer text = {.path = words[1]};
  read_file(&text);
  char *ir = strndup(text.data, (size_t)text.bytes);
  Emulated *e = emulate_text(ir, NULL);
  if (!e) return 1;
  EmuFault fault = emulate_run(e, words[2], &launch, message, sizeof message);
  if (fault != EMU_OK) printf("%s\n", message);
  for (int i = 0; i < launch.n; i++) {
    if (fault == EMU_OK && buffers[i].written) write_file(&buffers[i]);
    free(buffers[i].data);
  }
  emulate_free(e);
  free(text.data);
  free(ir);
  return fault != EMU_OK;
}
