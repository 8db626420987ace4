// Writes the tensor-core templates at the sizes of the benchmarks as suites of timed cases for replay.c: attention of a
// language model, convolutions of ResNet-50, and for each convolution the matrix product of the same size by cuBLAS.
//   kernels FOLDER ARCH [tiny]      tiny: sizes for the emulator, whose libraries are written, too
//   kernels shapes                  prints the convolutions in bf16, which PyTorch runs, too (shapes.py)
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/cuda/template/template.h"
#include "runtime/cuda/driver.h"
#include "test/codegen/emulate.c"

typedef struct Writer {
  const char *folder, *arch;
  bool tiny;
  LLVMModuleRef module;
  FILE *cases;
  int n_kernels;
} Writer;

static FILE *create(const Writer *w, const char *name, const char *suffix) {
  char path[4096];
  snprintf(path, sizeof path, "%s/%s.%s", w->folder, name, suffix);
  FILE *f = fopen(path, "w");
  if (!f) die("cannot write", path);
  return f;
}

static void begin(Writer *w, const char *name) {
  w->module = LLVMModuleCreateWithNameInContext(name, LLVMContextCreate());
  w->cases = create(w, name, "cases");
  fclose(create(w, name, "data"));
}

// The PTX of all kernels since `begin`; for the emulator their library.
static void end(Writer *w, const char *name) {
  fclose(w->cases);
  char *ir = LLVMPrintModuleToString(w->module), *ptx = emulate_ptx(ir, w->arch);
  if (!ptx) exit(1);
  FILE *f = create(w, name, "ptx");
  fputs(ptx, f);
  fclose(f);
  free(ptx);
  LLVMDisposeMessage(ir);
  LLVMContextRef llvm = LLVMGetModuleContext(w->module);
  if (w->tiny) emulate_library(w->module, w->folder, name);
  LLVMDisposeModule(w->module);
  LLVMContextDispose(llvm);
}

static void add_case(Writer *w, double flops, double bytes, const char *format, ...) {
  va_list args;
  va_start(args, format);
  fputs("case ", w->cases);
  vfprintf(w->cases, format, args);
  fprintf(w->cases, "\ntimed %.17g %.17g\n", flops, bytes);
  va_end(args);
}

static void add_buffer(Writer *w, char type, int64_t bytes) {
  fprintf(w->cases, "buffer %c 0 %lld -1 -2\n", type, (long long)bytes);
}

static void add_launch(Writer *w, const char *symbol, const TemplateLaunch *l, int n, const int *buffers) {
  fprintf(w->cases, "launch %s %lld %lld %lld %d 1 1 %d %d", symbol, (long long)l->grid[0], (long long)l->grid[1],
          (long long)l->grid[2], l->threads, l->shared_bytes, n + l->n_numbers);
  for (int i = 0; i < n; i++) fprintf(w->cases, " %d", buffers[i]);
  for (int i = 0; i < l->n_numbers; i++) fprintf(w->cases, " =%d", l->numbers[i]);
  fputc('\n', w->cases);
}

// ---------------------------------------------------------------------------------------------------------------------

static void attention(Writer *w, TileType type, int head_dim, int64_t tokens) {
  int64_t width = w->tiny ? head_dim : 2048, total = w->tiny ? tokens : 16384;
  Attention a = {.type = type,
                 .batch = total / tokens,
                 .heads = width / head_dim,
                 .groups = width / head_dim,
                 .n_queries = tokens,
                 .n_keys = tokens,
                 .head_dim = head_dim,
                 .causal = true,
                 .scale = 1 / sqrt(head_dim)};
  a.q = a.k = a.v = a.o = a.dq = a.dk = (AttentionStrides){tokens * width, head_dim, width};
  a.wgmma = !strcmp(w->arch, "sm_90a") && attention_wgmma_supported(&a);
  char element = "bhff"[type], symbol[3][64];
  int64_t bytes = total * width * tile_element_bytes(type), rows = a.batch * a.heads * tokens * 4;
  // two products, half of them masked
  double flops = 2 * (double)a.batch * (double)a.heads * (double)tokens * (double)tokens * head_dim;
  TemplateLaunch l[3];
  for (int i = 0; i < 3; i++) {
    snprintf(symbol[i], sizeof symbol[i], "attention_%d_%d", w->n_kernels++, i);
    a.backward = i > 0;
    attention_build(w->module, &a, i == 2, symbol[i], &l[i]);
  }
  const char *name = type == TILE_BF16 ? "bf16" : "tf32";
  add_case(w, flops, 4 * (double)bytes, "attention forward %s d%d T%lld", name, head_dim, (long long)tokens);
  for (int i = 0; i < 4; i++) add_buffer(w, element, bytes);
  add_buffer(w, 'f', rows);
  add_launch(w, symbol[0], &l[0], 5, (int[]){0, 1, 2, 3, 4});
  // q k v o lse do dq dk dv delta; the statistics are random, which changes no work.
  add_case(w, 2.5 * flops, 8 * (double)bytes, "attention backward %s d%d T%lld", name, head_dim, (long long)tokens);
  for (int i = 0; i < 9; i++) add_buffer(w, i == 4 ? 'f' : element, i == 4 ? rows : bytes);
  add_buffer(w, 'f', rows);
  for (int i = 1; i < 3; i++) add_launch(w, symbol[i], &l[i], 10, (int[]){0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
}

// ---------------------------------------------------------------------------------------------------------------------

static const char *const pass_names[] = {"forward", "input_grad", "weight_grad"};

// A product of the convolution's size, operands as its pass has them: with channels last all three are plain row-major
// products.
static void gemm(Writer *w, TileType type, const char *name, int64_t m, int64_t n, int64_t k, double flops) {
  int64_t size = tile_element_bytes(type);
  int cuda_type = type == TILE_BF16  ? CUDA_R_16BF
                  : type == TILE_F16 ? CUDA_R_16F
                                     : CUDA_R_32F,
      compute = type == TILE_TF32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
  char element = "bhff"[type];
  add_case(w, flops, (double)(size * (m * k + k * n + m * n)), "%s", name);
  add_buffer(w, element, m * k * size);
  add_buffer(w, element, k * n * size);
  add_buffer(w, element, m * n * size);
  fprintf(w->cases, "gemm %d %d %d %d %lld %lld %lld\n", cuda_type, compute, CUBLAS_OP_T, CUBLAS_OP_N, (long long)m,
          (long long)n, (long long)k);
}

typedef struct Shape {
  int64_t size, channels, outputs, kernel, stride;
} Shape;   // size: of the images that go in

static void label_of(const Shape *s, char *text, size_t size) {
  snprintf(text, size, "%lldx%lld %lld to %lld at %lld%s", (long long)s->kernel, (long long)s->kernel,
           (long long)s->channels, (long long)s->outputs, (long long)s->size, s->stride == 2 ? " stride 2" : "");
}

// `pixels` are those of the result, so that all three products have the convolution's FLOPs, whatever its stride.
static void convolution(Writer *w, TileType type, int64_t batch, const Shape *shape) {
  int64_t size = shape->size, channels = shape->channels, outputs = shape->outputs, kernel = shape->kernel,
          stride = shape->stride, result = (size - 1) / stride + 1;
  NncConv c = {.channels_last = true,
               .n = batch,
               .c = channels,
               .h = size,
               .w = size,
               .o = outputs,
               .oh = result,
               .ow = result,
               .kh = kernel,
               .kw = kernel,
               .stride = {stride, stride},
               .dilation = {1, 1},
               .pad = {kernel / 2, kernel / 2, kernel / 2, kernel / 2},
               .groups = 1};
  int64_t bytes = tile_element_bytes(type), pixels = batch * result * result, taps = kernel * kernel,
          x = batch * size * size * channels * bytes, y = pixels * outputs * bytes, weights = outputs * channels * taps;
  int64_t sizes[3][3] = {{x, weights * bytes, y}, {y, weights * bytes, x}, {x, y, weights * 4}};
  int64_t product[3][3] = {{outputs, pixels, channels * taps},
                           {channels, pixels, outputs * taps},
                           {channels * taps, outputs, pixels}};
  double flops = 2 * (double)pixels * (double)weights;
  char element = "bhff"[type], of[128], label[200], name[256];
  label_of(shape, of, sizeof of);
  for (int pass = 0; pass < 3; pass++) {
    ConvShape s;
    c.pass = (NncConvPass)pass;
    if (!conv_template_shape(&c, type, 0, &s)) die("no template for", pass_names[pass]);
    snprintf(label, sizeof label, "%s %s %s", pass_names[pass], type == TILE_BF16 ? "bf16" : "tf32", of);
    add_case(w, flops, (double)(x + y + weights * bytes), "conv %s", label);
    for (int i = 0; i < 3; i++) add_buffer(w, pass == 2 && i == 2 ? 'f' : element, sizes[pass][i]);
    if (conv_template_workspace(&s)) add_buffer(w, '-', conv_template_workspace(&s));
    for (int i = 0; i < conv_template_launches(&s); i++) {
      TemplateLaunch l;
      char *symbol = conv_template_symbol(&s, i);
      conv_template_launch(&s, i, &l);
      if (!LLVMGetNamedFunction(w->module, symbol)) conv_template_build(w->module, &s, i, symbol);
      add_launch(w, symbol, &l, conv_template_workspace(&s) ? 4 : 3, (int[]){0, 1, 2, 3});
      free(symbol);
    }
    snprintf(name, sizeof name, "gemm %s", label);
    gemm(w, type, name, product[pass][0], product[pass][1], product[pass][2], flops);
  }
}

// Every 3x3 and 1x1 convolution of ResNet-50, each once: those of the first block of a stage, its projection among
// them, then those of the others. The first stage has no stride and its projection is the shape of its last
// convolution.
static void convolutions(Writer *w, void (*each)(Writer *w, TileType type, int64_t batch, const Shape *shape)) {
  for (int stage = 0; stage < (w->tiny ? 2 : 4); stage++) {
    int64_t batch = w->tiny ? 1 : 128, width = (w->tiny ? 16 : 64) << stage,
            size = stage     ? (w->tiny ? 5 : 112 >> stage)
                   : w->tiny ? 5
                             : 56,
            inside = stage ? (size - 1) / 2 + 1 : size;
    Shape all[] = {{size, stage ? 2 * width : width, width, 1, 1},
                   {size, width, width, 3, 2},
                   {size, 2 * width, 4 * width, 1, 2},
                   {inside, width, 4 * width, 1, 1},
                   {inside, 4 * width, width, 1, 1},
                   {inside, width, width, 3, 1}};
    for (int i = 0; i < (int)(sizeof all / sizeof *all); i++)
      if (stage || all[i].stride == 1) each(w, TILE_BF16, batch, &all[i]);
    each(w, TILE_TF32, batch, &all[5]);
  }
}

static void print_shape(Writer *w, TileType type, int64_t batch, const Shape *shape) {
  char text[128];
  (void)w, (void)batch;
  label_of(shape, text, sizeof text);
  if (type == TILE_BF16) printf("%s\n", text);
}

int main(int argc, char **argv) {
  if (argc == 2 && strcmp(argv[1], "shapes") == 0) {
    convolutions(&(Writer){0}, print_shape);
    return 0;
  }
  if (argc < 3) {
    fprintf(stderr, "usage: kernels FOLDER ARCH [tiny] | kernels shapes\n");
    return 2;
  }
  Writer w = {.folder = argv[1], .arch = argv[2], .tiny = argc > 3};
  begin(&w, "attention");
  for (int d = 64; d <= 128; d *= 2)
    for (int64_t t = w.tiny ? 64 : 1024; t <= (w.tiny ? 128 : 16384); t *= 2) attention(&w, TILE_BF16, d, t);
  end(&w, "attention");
  begin(&w, "conv");
  convolutions(&w, convolution);
  static const int64_t sizes[] = {4096, 8192};
  for (int i = 0; i < 2; i++) {
    int64_t n = w.tiny ? 64 : sizes[i];
    gemm(&w, TILE_BF16, i ? "gemm bf16 8192" : "gemm bf16 4096", n, n, n, 2 * pow((double)n, 3));
  }
  gemm(&w, TILE_TF32, "gemm tf32 4096", w.tiny ? 64 : 4096, w.tiny ? 64 : 4096, w.tiny ? 64 : 4096,
       2 * pow(w.tiny ? 64 : 4096, 3));
  gemm(&w, TILE_F32, "gemm f32 4096", w.tiny ? 64 : 4096, w.tiny ? 64 : 4096, w.tiny ? 64 : 4096,
       2 * pow(w.tiny ? 64 : 4096, 3));
  end(&w, "conv");
  return 0;
}
