// Resizing while an image is decoded, row by row: each row is filtered to the width of the window and added to the rows
// of the window that it is part of. Weights are those of Pillow (and torchvision with antialias), rounded once.
#include <math.h>
#include <string.h>

#include "runtime/images/images.h"

static int64_t max_weights(const ImageShape *s) { return 2 * (IMAGE_MAX_SIDE + 1) + 4 * s->width; }

int64_t resize_room_bytes(const ImageShape *s) {
  return (int64_t)sizeof(float) * (s->channels * s->width * (s->height + 1) + max_weights(s)) +
         (int64_t)sizeof(int32_t) * 2 * (s->width + 1);
}

void resize_whole(const ImageShape *s, int64_t height, int64_t width, int64_t *to_height, int64_t *to_width) {
  int64_t shorter = s->shorter;
  if (!shorter) {   // the least at which both sides cover the window
    bool by_width = s->width * height >= s->height * width;
    *to_width = by_width ? s->width : (width * s->height + height - 1) / height;
    *to_height = by_width ? (height * s->width + width - 1) / width : s->height;
    return;
  }
  *to_width = width <= height ? shorter : shorter * width / height;
  *to_height = width <= height ? shorter * height / width : shorter;
}

// The pixels [*first, *end) that make up pixel x of the scaled side, and the filter's scale and centre.
static void span(int64_t x, int64_t from, int64_t to, int64_t *first, int64_t *end, double *scale, double *centre) {
  double step = (double)from / (double)to;
  *scale = step > 1 ? step : 1;
  *centre = ((double)x + 0.5) * step;
  double low = *centre - *scale + 0.5, high = *centre + *scale + 0.5;
  *first = low < 0 ? 0 : (int64_t)low;
  *end = high > (double)from ? from : (int64_t)high;
}

static double weight(int64_t i, double scale, double centre) {
  double distance = fabs(((double)i - centre + 0.5) / scale);
  return distance < 1 ? 1 - distance : 0;
}

static double sum_of_weights(int64_t first, int64_t end, double scale, double centre) {
  double sum = 0;
  for (int64_t i = first; i < end; i++) sum += weight(i, scale, centre);
  return sum;
}

void resize_begin(Resize *r, const ImageShape *s, int64_t height, int64_t width, int64_t to_height, int64_t to_width,
                  void *room) {
  *r = (Resize){.shape = *s,
                .from_height = height,
                .from_width = width,
                .to_height = to_height,
                .to_width = to_width,
                .top = (int64_t)lrint((double)(to_height - s->height) / 2),
                .left = (int64_t)lrint((double)(to_width - s->width) / 2)};
  r->sums = room;
  r->line = r->sums + s->channels * s->width * s->height;
  r->weights = r->line + s->channels * s->width;
  r->first = (int32_t *)(r->weights + max_weights(s));
  memset(r->sums, 0, sizeof(float) * (size_t)(s->channels * s->width * s->height));
  int32_t n = 0;
  for (int64_t x = 0; x < s->width; x++) {
    int64_t first, end;
    double scale, centre;
    span(r->left + x, width, to_width, &first, &end, &scale, &centre);
    double sum = sum_of_weights(first, end, scale, centre);
    r->first[2 * x] = (int32_t)first, r->first[2 * x + 1] = n;
    for (int64_t i = first; i < end; i++) r->weights[n++] = (float)(weight(i, scale, centre) / sum);
  }
  r->first[2 * s->width + 1] = n;
}

static void filter_line(const Resize *r, const unsigned char *pixels) {
  int64_t channels = r->shape.channels, width = r->shape.width;
  for (int64_t x = 0; x < width; x++) {
    const unsigned char *from = pixels + r->first[2 * x] * channels;
    const float *w = r->weights + r->first[2 * x + 1], *end = r->weights + r->first[2 * x + 3];
    float sum[3] = {0};
    for (; w < end; w++, from += channels)
      for (int64_t c = 0; c < channels; c++) sum[c] += *w * (float)from[c];
    for (int64_t c = 0; c < channels; c++) r->line[c * width + x] = sum[c];
  }
}

void resize_row(Resize *r, const unsigned char *pixels) {
  const ImageShape *s = &r->shape;
  int64_t row = r->row++, width = s->width, first, end;
  double step = (double)r->from_height / (double)r->to_height, reach = step > 1 ? step : 1, scale, centre;
  bool filtered = false;
  int64_t low = (int64_t)floor(((double)row - reach - 1) / step) - r->top - 1,
          high = (int64_t)ceil(((double)row + reach + 1) / step) - r->top + 1;
  for (int64_t y = low < 0 ? 0 : low; y < s->height && y <= high; y++) {
    span(r->top + y, r->from_height, r->to_height, &first, &end, &scale, &centre);
    if (row < first || row >= end) continue;
    if (!filtered) filter_line(r, pixels);
    filtered = true;
    float w = (float)(weight(row, scale, centre) / sum_of_weights(first, end, scale, centre));
    for (int64_t c = 0; c < s->channels; c++) {
      float *to = r->sums + (c * s->height + y) * width;
      const float *line = r->line + c * width;
      for (int64_t x = 0; x < width; x++) to[x] += w * line[x];
    }
  }
}

void resize_end(const Resize *r, unsigned char *planes) {
  int64_t n = r->shape.channels * r->shape.height * r->shape.width;
  for (int64_t i = 0; i < n; i++) {
    float v = r->sums[i] + 0.5f;
    planes[i] = v < 0 ? 0 : v > 255 ? 255 : (unsigned char)v;
  }
}
