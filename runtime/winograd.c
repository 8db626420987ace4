// 3x3 convolutions of stride 1 by minimal filtering: tiles of 4 x 4 outputs in 36 products instead of 144, F(4x4, 3x3)
// of Lavin and Gray ("Fast Algorithms for Convolutional Neural Networks", 2016), and the weight gradient as F(3x3,
// 4x4). Channels-last images are read and written in place. Tiles go through in chunks that stay near the cores; each
// result is summed in one order, whatever the number of threads.
#include "runtime/library_internal.h"
#include "runtime/runtime.h"
#include "support/integers.h"

#include <omp.h>

enum {
  POINTS = 36,
  TILE = 4,
  TILES_OF_BLOCK = 56,
  TILES_OF_SUM = 112,
  LEAST_UNITS = 8,
  APART = 48,
  INPUTS_AT_ONCE = 16
};
#define CHUNK_BYTES (6 << 20)

// The points 0, +-A, +-B and infinity. These sizes keep what the transforms multiply with small (Barabasz et al.,
// "Error Analysis and Improving the Accuracy of Winograd Convolution for Deep Neural Networks", 2020).
#define A (5.f / 8)
#define B (3.f / 2)
#define AA (A * A)
#define BB (B * B)
#define NA (1 / (2 * AA * (AA - BB)))
#define NB (1 / (2 * BB * (BB - AA)))

typedef struct Image {
  int64_t height, width, channels;
} Image;

// The loops for one instruction set; what they do stands in winograd_loops.inc.
typedef struct Loops {
  int lanes, panel, tile_rows;   // floats of a vector; channels of a panel; rows of a product's tile
  void (*data_tile)(const Image *image, const float *pixels, int64_t y, int64_t x, float *to, int64_t plane,
                    int64_t block);
  void (*gradient_tile)(const Image *image, const float *pixels, int64_t channels, int64_t y, int64_t x, float *to,
                        int64_t plane, int64_t block);
  void (*filters)(const float *w, int64_t inputs, int64_t s_out, int64_t s_in, bool flipped, float *to, int64_t plane);
  void (*output_tile)(const float *m, int64_t plane, const Image *image, float *pixels, int64_t y, int64_t x);
  void (*filter_gradients)(const float *s, int64_t plane, int64_t inputs, float *dw, int64_t s_out, int64_t s_in);
  void (*product_of_tiles)(int rows, int64_t channels, const float *a, int64_t a_block, const float *b, float *c);
  void (*product_over_tiles)(int rows, int64_t tiles, const float *a, int64_t a_row, const float *b, int64_t b_row,
                             float *c, bool add);
} Loops;

#define LOOPS "runtime/winograd_loops.inc"
#include "runtime/tile_loops.inc"
#undef PANEL

// What a convolution, or the gradient of its input, comes to: `in` filtered to `out`. In the weight gradient `out` is
// dy.
typedef struct Filtering {
  const Loops *loops;
  Image in, out;
  int64_t images, pad[2];
  int64_t rows, columns;         // tiles of an image
  int64_t tiles, chunk;          // of all images; of a chunk
  int64_t plane_in, plane_out;   // floats from a point to the next
  int64_t step_in, step_out;     // weight gradient: floats from a tile to the next
  int64_t panels, parts;         // outputs by panel; parts of a chunk's tiles, or of the inputs
  int64_t groups;                // of panels; weight gradient: those of one group at a time are at the points
  int64_t s_out, s_in;           // weights: floats from an output channel to the next, an input channel to the next
  bool flipped, is_gradient;
  int64_t unit_floats;   // of a thread, or in a weight gradient of several chunks of each unit
  bool keeps_units;
  int threads;
} Filtering;

// Planes a multiple of 4 KiB apart would share the sets of a cache.
static int64_t plane_floats(int64_t floats) { return (floats < 1024 ? floats : round_up(floats, 1024)) + APART; }

// Of the convolution's three tensors.
static int64_t operand_bytes(const NncConv *c) {
  return (int64_t)sizeof(float) * (c->n * (c->h * c->w * c->c + c->oh * c->ow * c->o) + 9 * c->c * c->o);
}

// Groups leave threads enough to do.
static bool has_groups(const Filtering *f, int64_t groups) {
  return f->panels % groups == 0 && f->panels / groups * (f->in.channels / f->loops->panel) >= LEAST_UNITS;
}

// The least number of groups with which all tiles of x and those of a group of dy take no more than `bytes`, 1 if there
// is none.
static int64_t groups_of(const Filtering *f, int64_t bytes) {
  int64_t of_channel = f->tiles * POINTS * (int64_t)sizeof(float), x = of_channel * f->in.channels,
          dy = of_channel * f->out.channels;
  for (int64_t groups = 2; has_groups(f, groups); groups *= 2)
    if (x + dy / groups <= bytes) return groups;
  return 1;
}

// Inputs of a weight gradient that a thread sums at a time: more read dy fewer times, fewer are more for threads to
// share.
static int64_t inputs_of_unit(const Filtering *f) {
  int64_t inputs = 64;
  while (inputs > f->loops->panel &&
         (f->in.channels % inputs != 0 || (inputs == 64 && f->in.channels / inputs * f->panels < 2 * f->threads)))
    inputs /= 2;
  return inputs;
}

// Of what threads share at a time.
static int64_t unit_count(const Filtering *f) { return f->panels / f->groups * f->parts; }

static int64_t workspace_bytes(const Filtering *f) {
  return library_align(
      (POINTS * (f->plane_in + f->plane_out) + f->unit_floats * (f->keeps_units ? unit_count(f) : f->threads)) *
      (int64_t)sizeof(float));
}

// A workspace much larger than the tensors themselves would cost small networks the memory that budgets are about.
static bool is_modest(const NncConv *c, const Filtering *f) { return 2 * workspace_bytes(f) <= 3 * operand_bytes(c); }

// A weight gradient by chunks of tiles, which keep the sums of all units between them, or by groups of outputs.
static Filtering cut_gradient(Filtering f, int64_t chunks, int64_t groups) {
  f.groups = groups, f.chunk = divide_up(f.tiles, chunks), f.keeps_units = chunks > 1;
  f.step_in = f.in.channels + 16, f.step_out = f.out.channels / groups + 16;
  f.plane_in = plane_floats(f.chunk * f.step_in), f.plane_out = plane_floats(f.chunk * f.step_out);
  f.parts = f.in.channels / inputs_of_unit(&f);
  f.unit_floats = POINTS * plane_floats(f.in.channels / f.parts * f.loops->panel);
  return f;
}

// All tiles at a time where they fit into a chunk, with few groups, or where there is no room for the sums between
// chunks, with many, which take less and are as fast. Groups leave the order of sums as it is, chunks do not: whether
// there are some is the same for any number of threads.
static Filtering filtering_of_gradient(const NncConv *c, const Filtering *f, int64_t chunks, int64_t chunk_bytes) {
  int64_t groups = chunks > 1 ? groups_of(f, chunk_bytes) : 1;
  if (groups > 1) return cut_gradient(*f, 1, groups);
  Filtering one = *f;
  one.threads = 1;
  one = cut_gradient(one, chunks, 1);
  if (chunks > 1 && !is_modest(c, &one)) {
    while (has_groups(f, 2 * groups)) groups *= 2;
    Filtering grouped = cut_gradient(*f, 1, groups);
    if (is_modest(c, &grouped)) return grouped;
  }
  return cut_gradient(*f, chunks, 1);
}

static Filtering filtering_of(const NncConv *c, int threads) {
  const Loops *l = loops_here();
  Filtering f = {.loops = l,
                 .images = c->n,
                 .in = {c->h, c->w, c->c},
                 .out = {c->oh, c->ow, c->o},
                 .pad = {c->pad[0], c->pad[2]},
                 .s_out = 9 * c->c,
                 .s_in = 9,
                 .groups = 1,
                 .is_gradient = c->pass == NNC_CONV_WEIGHT_GRAD,
                 .threads = threads};
  if (c->pass == NNC_CONV_INPUT_GRAD) {
    Image in = f.out;
    f.out = f.in, f.in = in, f.s_out = 9, f.s_in = 9 * c->c, f.flipped = true;
    f.pad[0] = 2 - c->pad[0], f.pad[1] = 2 - c->pad[2];
  }
  f.rows = divide_up(f.out.height, TILE), f.columns = divide_up(f.out.width, TILE),
  f.tiles = f.images * f.rows * f.columns;
  int64_t bytes_of_tile = POINTS * (int64_t)sizeof(float) * (f.in.channels + (f.is_gradient ? f.out.channels : 0));
  int64_t chunk_bytes = operand_bytes(c) < CHUNK_BYTES ? operand_bytes(c) : CHUNK_BYTES,
          chunks = divide_up(f.tiles * bytes_of_tile, chunk_bytes);
  f.chunk = divide_up(f.tiles, chunks);
  f.panels = f.out.channels / l->panel;
  if (f.is_gradient) return filtering_of_gradient(c, &f, chunks, chunk_bytes);
  f.plane_in = plane_floats(f.chunk * f.in.channels);
  f.parts = divide_up(2 * f.threads, f.panels);
  if (f.parts > divide_up(f.chunk, l->tile_rows)) f.parts = divide_up(f.chunk, l->tile_rows);
  f.unit_floats = POINTS * (plane_floats(f.in.channels * l->panel) + TILES_OF_BLOCK * l->panel + APART);
  return f;
}

// Bytes; independent of the number of images once they fill a chunk.
int64_t winograd_scratch(const NncConv *c, int threads) {
  Filtering f = filtering_of(c, threads);
  return workspace_bytes(&f);
}

bool winograd_fits(const NncConv *c, int threads) {
  const Loops *l = loops_here();
  bool shape = l && c->dtype == NNC_F32 && c->channels_last && !nnc_conv_is_3d(c) && c->kh == 3 && c->kw == 3 &&
               c->stride[0] == 1 && c->stride[1] == 1 && c->dilation[0] == 1 && c->dilation[1] == 1 && c->groups == 1 &&
               c->c % l->panel == 0 && c->o % l->panel == 0;
  for (int i = 0; i < 4; i++) shape &= c->pad[i] <= 2;
  if (!shape) return false;
  // Transforming the filters costs about as much as 16 tiles: with few tiles direct is as fast, or faster. So it is
  // with more threads than units.
  Filtering f = filtering_of(c, threads);
  return unit_count(&f) >= threads && is_modest(c, &f) &&
         8 * (f.tiles + (f.is_gradient ? 0 : 16)) <= f.images * f.out.height * f.out.width;
}

static void place(const Filtering *f, int64_t tile, int64_t *image, int64_t *y, int64_t *x) {
  *image = tile / (f->rows * f->columns);
  *y = tile / f->columns % f->rows * TILE;
  *x = tile % f->columns * TILE;
}

static const float *image_at(const Image *i, const float *images, int64_t n) {
  return images + n * i->height * i->width * i->channels;
}

// Products of one panel and one part of a chunk's tiles, and the outputs they give.
static void filter_part(const Filtering *f, const float *points, const float *filters, float *m, int64_t first_tile,
                        int64_t from, int64_t end, int64_t panel, float *out) {
  const Loops *l = f->loops;
  for (int64_t at = from; at < end; at += TILES_OF_BLOCK) {
    int64_t count = end - at < TILES_OF_BLOCK ? end - at : TILES_OF_BLOCK, blocks = divide_up(count, l->tile_rows),
            plane = count * l->panel + APART;
    for (int64_t p = 0; p < POINTS; p++)
      for (int64_t b = 0; b < blocks; b++) {
        int64_t r = count * b / blocks, rows = count * (b + 1) / blocks - r;
        l->product_of_tiles((int)rows, f->in.channels, points + p * f->plane_in + (at + r) * l->lanes,
                            f->chunk * l->lanes, filters + p * plane_floats(f->in.channels * l->panel),
                            m + p * plane + r * l->panel);
      }
    for (int64_t t = 0; t < count; t++) {
      int64_t image, y, x;
      place(f, first_tile + at + t, &image, &y, &x);
      l->output_tile(m + t * l->panel, plane, &f->out,
                     out + image * f->out.height * f->out.width * f->out.channels + panel * l->panel, y, x);
    }
  }
}

static void filter(const Filtering *f, const float *in, const float *w, float *out, float *workspace) {
  const Loops *l = f->loops;
  float *points = workspace, *units = workspace + POINTS * f->plane_in;
#pragma omp parallel num_threads(f->threads)
  {
    float *filters = units + omp_get_thread_num() * f->unit_floats,
          *m = filters + POINTS * plane_floats(f->in.channels * l->panel);
    int64_t have = -1;
    for (int64_t first = 0; first < f->tiles; first += f->chunk) {
      int64_t count = f->tiles - first < f->chunk ? f->tiles - first : f->chunk;
#pragma omp for schedule(dynamic, 8)
      for (int64_t t = 0; t < count; t++) {
        int64_t image, y, x;
        place(f, first + t, &image, &y, &x);
        l->data_tile(&f->in, image_at(&f->in, in, image), y - f->pad[0], x - f->pad[1], points + t * l->lanes,
                     f->plane_in, f->chunk * l->lanes);
      }
#pragma omp for schedule(dynamic, 1)
      for (int64_t u = 0; u < f->panels * f->parts; u++) {
        int64_t panel = u / f->parts, part = u % f->parts;
        if (have != panel)
          l->filters(w + panel * l->panel * f->s_out, f->in.channels, f->s_out, f->s_in, f->flipped, filters,
                     plane_floats(f->in.channels * l->panel));
        have = panel;
        filter_part(f, points, filters, m, first, count * part / f->parts, count * (part + 1) / f->parts, panel, out);
      }
    }
  }
}

// Sums of a unit over the tiles of a chunk, some tiles at a time, which is faster and rounds less.
static void sum_unit(const Filtering *f, const float *x, const float *dy, int64_t count, float *sums, bool add) {
  const Loops *l = f->loops;
  int64_t inputs = f->in.channels / f->parts, blocks = divide_up(inputs, l->tile_rows),
          parts = divide_up(count, TILES_OF_SUM);
  for (int64_t p = 0; p < POINTS; p++)
    for (int64_t part = 0; part < parts; part++) {
      int64_t from = count * part / parts, end = count * (part + 1) / parts;
      const float *a = x + p * f->plane_in + from * f->step_in, *b = dy + p * f->plane_out + from * f->step_out;
      for (int64_t block = 0; block < blocks; block++) {
        int64_t r = inputs * block / blocks, rows = inputs * (block + 1) / blocks - r;
        l->product_over_tiles((int)rows, end - from, a + r, f->step_in, b, f->step_out,
                              sums + p * plane_floats(inputs * l->panel) + r * l->panel, add || part > 0);
      }
    }
}

static void filter_gradient(const Filtering *f, const float *x, const float *dy, float *dw, float *workspace) {
  const Loops *l = f->loops;
  float *x_points = workspace, *dy_points = x_points + POINTS * f->plane_in, *units = dy_points + POINTS * f->plane_out;
  int64_t inputs = f->in.channels / f->parts, panels = f->panels / f->groups, outputs = panels * l->panel;
#pragma omp parallel num_threads(f->threads)
  for (int64_t group = 0; group < f->groups; group++)
    for (int64_t first = 0; first < f->tiles; first += f->chunk) {
      int64_t count = f->tiles - first < f->chunk ? f->tiles - first : f->chunk;
#pragma omp for schedule(dynamic, 8)
      for (int64_t t = 0; t < count; t++) {
        int64_t image, row, column;
        place(f, first + t, &image, &row, &column);
        if (group == 0)
          l->data_tile(&f->in, image_at(&f->in, x, image), row - f->pad[0], column - f->pad[1],
                       x_points + t * f->step_in, f->plane_in, l->lanes);
        l->gradient_tile(&f->out, image_at(&f->out, dy, image) + group * outputs, outputs, row, column,
                         dy_points + t * f->step_out, f->plane_out, l->lanes);
      }
#pragma omp for schedule(dynamic, 1)
      for (int64_t u = 0; u < panels * f->parts; u++) {
        int64_t panel = u / f->parts, part = u % f->parts;
        float *sums = units + (f->keeps_units ? u : omp_get_thread_num()) * f->unit_floats;
        float *w = dw + (group * outputs + panel * l->panel) * f->s_out + part * inputs * f->s_in;
        sum_unit(f, x_points + part * inputs, dy_points + panel * l->panel, count, sums, first > 0);
        if (first + count == f->tiles)
          l->filter_gradients(sums, plane_floats(inputs * l->panel), inputs, w, f->s_out, f->s_in);
      }
    }
}

void winograd_execute(const NncConv *c, int threads, void *const buffers[3], void *workspace) {
  Filtering f = filtering_of(c, threads);
  if (f.is_gradient) filter_gradient(&f, buffers[0], buffers[1], buffers[2], workspace);
  else filter(&f, buffers[0], buffers[1], buffers[2], workspace);
}
