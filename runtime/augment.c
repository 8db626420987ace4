// What happens to a record between the file and the arena: images are mirrored and cut at random while training, and
// normalised always. It happens here, where a batch is staged, not in the plan: so the draws depend on seed, epoch and
// record alone, whatever runs again, and cost no arena.
#include <string.h>

#include "runtime/runtime.h"

// The part of n that the high bits of a draw select: an integer in [0, n).
static int64_t part(uint32_t bits, int64_t n) { return (int64_t)((uint64_t)bits * (uint64_t)n >> 32); }

ImageMove augment_draw(const Column *c, uint64_t seed, uint64_t epoch, int64_t record) {
  ImageMove move = {.pad = c->crop};
  if (c->flip > 0) move.mirror = philox_uniform(seed, philox_stream("flip") + epoch, (uint64_t)record) < c->flip;
  if (c->crop > 0) {
    uint64_t bits = philox_u64(seed, philox_stream("crop") + epoch, (uint64_t)record);
    move.top = part((uint32_t)(bits >> 32), 2 * c->crop + 1);
    move.left = part((uint32_t)bits, 2 * c->crop + 1);
  }
  return move;
}

void augment_move(ImageMove move, int64_t planes, int64_t height, int64_t width, int64_t element, const char *src,
                  char *dst) {
  for (int64_t row = 0; row < planes * height; row++) {
    int64_t plane = row / height, y = row % height + move.top - move.pad;
    char *to = dst + row * width * element;
    memset(to, 0, (size_t)(width * element));
    if (y < 0 || y >= height) continue;
    const char *from = src + (plane * height + y) * width * element;
    int64_t shift = move.left - move.pad, begin = shift < 0 ? -shift : 0, end = shift > 0 ? width - shift : width;
    if (begin >= end) continue;
    if (!move.mirror) memcpy(to + begin * element, from + (begin + shift) * element, (size_t)((end - begin) * element));
    else
      for (int64_t x = begin; x < end; x++)
        memcpy(to + x * element, from + (width - 1 - x - shift) * element, (size_t)element);
  }
}

void stage_record(const NncTensor *input, NncDtype from, const void *values, char *to, int64_t n) {
  enum { CHUNK = 512 };
  double chunk[CHUNK];
  if (!input->n_channels) {
    convert_elements(from, values, input->dtype, to, n);
    return;
  }
  int64_t plane = n / input->n_channels;
  double scale = from == NNC_U8 ? 255 : 1;   // a byte is a part of 255
  for (int64_t first = 0; first < n;) {
    int64_t channel = first / plane, left = (channel + 1) * plane - first, count = left < CHUNK ? left : CHUNK;
    convert_elements(from, (const char *)values + first * dtype_bytes(from), NNC_F64, chunk, count);
    for (int64_t i = 0; i < count; i++)
      chunk[i] = (chunk[i] / scale - input->mean[channel]) / input->deviation[channel];
    convert_elements(NNC_F64, chunk, input->dtype, to + first * dtype_bytes(input->dtype), count);
    first += count;
  }
}
