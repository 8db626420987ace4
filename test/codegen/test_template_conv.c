// Convolution templates in the emulator against plain loops in double: forward, input gradient, weight gradient;
// strides, padding, dilation, groups, sizes that fill no tile.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/cuda/template/template.h"
#include "test/check.h"
#include "test/codegen/emulate.c"

static char message[4096];
static const char *const type_names[] = {"bf16", "f16", "tf32", "f32"};
// of the largest result; of the weight gradient's f32 results too
static const double tolerances[] = {8e-3, 1e-3, 2e-3, 2e-6};
__extension__ typedef _Float16 Half;

static void store(TileType t, void *p, int64_t i, double x) {
  float f = (float)x;
  uint16_t bits = emulate_to_bf16(f);
  Half h = (Half)f;
  if (t == TILE_F16) memcpy(&bits, &h, 2);
  if (tile_element_bytes(t) == 4) memcpy((char *)p + 4 * i, &f, 4);
  else memcpy((char *)p + 2 * i, &bits, 2);
}
static double load(TileType t, const void *p, int64_t i) {
  float f;
  uint16_t bits;
  Half h;
  memcpy(&bits, (const char *)p + 2 * i, 2);
  memcpy(&h, (const char *)p + 2 * i, 2);
  if (tile_element_bytes(t) == 4) memcpy(&f, (const char *)p + 4 * i, 4);
  else f = t == TILE_BF16 ? emulate_from_bf16(bits) : (float)h;
  return (double)f;
}

// value: what the device has, or the expected result
typedef struct Array {
  void *device;
  double *value;
  int64_t n;
  uint64_t bytes;
} Array;

static bool wgmma, wide;   // the kernels of sm_90a; with 256 columns

static Array array(TileType t, int64_t n, uint32_t seed) {   // seed 0: zeros expected, poison on the device
  Array a = {.n = n, .bytes = (uint64_t)(n * tile_element_bytes(t))};
  a.device = aligned_alloc(16, (a.bytes + 15) / 16 * 16);
  a.value = calloc((size_t)n, 8);
  memset(a.device, 0xff, a.bytes);
  for (int64_t i = 0; i < n && seed; i++) {
    seed = seed * 1664525u + 1013904223u;
    store(t, a.device, i, (double)(seed >> 8) / (1 << 23) - 1);
    a.value[i] = load(t, a.device, i);
  }
  return a;
}
static void array_free(Array *a) {
  free(a->device);
  free(a->value);
}

static void reference(const ConvShape *s, const Array *x, const Array *w, const Array *dy, Array *y, Array *dx,
                      Array *dw) {
  int64_t ci = s->c / s->groups, oi = s->o / s->groups;
  for (int64_t n = 0; n < s->n; n++)
    for (int64_t p = 0; p < s->oh * s->ow; p++)
      for (int64_t ky = 0; ky < s->kh; ky++)
        for (int64_t kx = 0; kx < s->kw; kx++) {
          int64_t iy = p / s->ow * s->stride[0] - s->pad[0] + ky * s->dilation[0],
                  ix = p % s->ow * s->stride[1] - s->pad[1] + kx * s->dilation[1];
          if (iy < 0 || iy >= s->h || ix < 0 || ix >= s->w) continue;
          for (int64_t o = 0; o < s->o; o++)
            for (int64_t c = 0; c < ci; c++) {
              int64_t at_x = ((n * s->h + iy) * s->w + ix) * s->c + o / oi * ci + c,
                      at_y = (n * s->oh * s->ow + p) * s->o + o, at_w = ((o * ci + c) * s->kh + ky) * s->kw + kx;
              y->value[at_y] += x->value[at_x] * w->value[at_w];
              dx->value[at_x] += dy->value[at_y] * w->value[at_w];
              dw->value[at_w] += dy->value[at_y] * x->value[at_x];
            }
        }
}

static void launch(Emulated *e, const char *kernel, TemplateLaunch *l, int n, EmulateArgument *arguments,
                   const char *types, double tolerance) {
  for (int i = 0; i < l->n_numbers; i++) arguments[n++] = (EmulateArgument){"number", &l->numbers[i], 0};
  EmulateLaunch el = {.block = {(uint32_t)l->threads},
                      .dynamic_bytes = (uint32_t)l->shared_bytes,
                      .order = emulate_order(),
                      .n = n,
                      .arguments = arguments,
                      .types = types,
                      .tolerance = tolerance};
  for (int i = 0; i < 3; i++) el.grid[i] = (uint32_t)l->grid[i];
  CHECK(emulate_run(e, kernel, &el, message, sizeof message) == EMU_OK, "%s", message);
}

static void compare(const char *what, const ConvShape *s, TileType stored, const Array *a) {
  double most = 0, worst = 0;
  for (int64_t i = 0; i < a->n; i++) {
    most = fmax(most, fabs(a->value[i]));
    double error = fabs(load(stored, a->device, i) - a->value[i]);
    if (!(error <= worst) && !isnan(worst)) worst = error;
  }
  CHECK(worst <= tolerances[s->type] * most, "%s of %s, %lldx%lldx%lldx%lld to %lld, %lldx%lld: error %.3g of %.3g",
        what, type_names[s->type], (long long)s->n, (long long)s->c, (long long)s->h, (long long)s->w, (long long)s->o,
        (long long)s->kh, (long long)s->kw, worst, most);
}

static const char *const pass_names[] = {"y", "dx", "dw"};

// One pass: all its launches over three buffers and a workspace, the third compared.
static void run_pass(NncConv *c, NncConvPass pass, TileType type, bool grouped, const Array *first, const Array *second,
                     const Array *result) {
  ConvShape s;
  TemplateLaunch l[2];
  char name[2][16];
  c->pass = pass;
  c->dtype = (NncDtype[]){NNC_BF16, NNC_F16, NNC_F32, NNC_F32}[type];
  c->result = pass == NNC_CONV_WEIGHT_GRAD ? NNC_F32 : c->dtype;
  CHECK(grouped ? conv_grouped_shape(c, 0, &s) : conv_template_shape(c, type, 0, &s), "not supported");
  s.wgmma = wgmma && tile_element_bytes(type) == 2;
  s.wide = wide && s.wgmma && (pass != NNC_CONV_WEIGHT_GRAD || s.o / s.groups > 64);
  LLVMModuleRef module = LLVMModuleCreateWithNameInContext("conv", LLVMContextCreate());
  for (int i = 0; i < conv_template_launches(&s); i++) {
    snprintf(name[i], sizeof name[i], "%s_%d", pass_names[pass], i);
    conv_template_launch(&s, i, &l[i]);
    conv_template_build(module, &s, i, name[i]);
  }
  Emulated *e = emulate_take_module(module, NULL);
  if (!e) exit(1);
  uint64_t bytes = (uint64_t)conv_template_workspace(&s);
  void *workspace = aligned_alloc(64, (bytes + 64) / 64 * 64);
  memset(workspace, 0xff, (bytes + 64) / 64 * 64);
  EmulateArgument arguments[4 + TEMPLATE_NUMBERS] = {{"first", first->device, first->bytes},
                                                     {"second", second->device, second->bytes},
                                                     {"result", result->device, result->bytes},
                                                     {"workspace", workspace, bytes}};
  char of = "bhff"[type], types[] = {of, of, pass == NNC_CONV_WEIGHT_GRAD ? 'f' : of, '-', 0};
  for (int i = 0; i < conv_template_launches(&s); i++)
    launch(e, name[i], &l[i], bytes ? 4 : 3, arguments, types, tolerances[type]);
  compare(pass_names[pass], &s, pass == NNC_CONV_WEIGHT_GRAD ? TILE_F32 : type, result);
  free(workspace);
  emulate_free(e);
}

static void test_conv(ConvShape s) {   // what is 0 and cannot be is 1
  int64_t *defaults[] = {&s.n, &s.stride[0], &s.stride[1], &s.dilation[0], &s.dilation[1], &s.groups};
  for (size_t i = 0; i < sizeof defaults / sizeof *defaults; i++)
    if (!*defaults[i]) *defaults[i] = 1;
  s.oh = (s.h + 2 * s.pad[0] - s.dilation[0] * (s.kh - 1) - 1) / s.stride[0] + 1;
  s.ow = (s.w + 2 * s.pad[1] - s.dilation[1] * (s.kw - 1) - 1) / s.stride[1] + 1;
  NncConv c = {.channels_last = true,
               .n = s.n,
               .c = s.c,
               .h = s.h,
               .w = s.w,
               .o = s.o,
               .oh = s.oh,
               .ow = s.ow,
               .kh = s.kh,
               .kw = s.kw,
               .stride = {s.stride[0], s.stride[1]},
               .pad = {s.pad[0], s.pad[0], s.pad[1], s.pad[1]},
               .dilation = {s.dilation[0], s.dilation[1]},
               .groups = s.groups};
  int64_t nx = s.n * s.h * s.w * s.c, ny = s.n * s.oh * s.ow * s.o, nw = s.o * s.c / s.groups * s.kh * s.kw;
  Array x = array(s.type, nx, 1), w = array(s.type, nw, 2), dy = array(s.type, ny, 3), y = array(s.type, ny, 0),
        dx = array(s.type, nx, 0), dw = array(TILE_F32, nw, 0);
  reference(&s, &x, &w, &dy, &y, &dx, &dw);
  run_pass(&c, NNC_CONV_FORWARD, s.type, s.grouped, &x, &w, &y);
  run_pass(&c, NNC_CONV_INPUT_GRAD, s.type, s.grouped, &dy, &w, &dx);
  run_pass(&c, NNC_CONV_WEIGHT_GRAD, s.type, s.grouped, &x, &dy, &dw);
  Array *all[] = {&x, &w, &dy, &y, &dx, &dw};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) array_free(all[i]);
}

// A convolution of ResNet-50 as PTX: accepted by ptxas where there is one, without spills.
static void test_ptx(TileType type, int64_t channels, const char *arch) {
  bool uses = !strcmp(arch, "sm_90a") && tile_element_bytes(type) == 2;
  ConvShape s = {.type = type,
                 .n = 32,
                 .c = channels,
                 .h = 28,
                 .w = 28,
                 .o = channels,
                 .oh = 28,
                 .ow = 28,
                 .kh = 3,
                 .kw = 3,
                 .stride = {1, 1},
                 .pad = {1, 1},
                 .dilation = {1, 1},
                 .groups = 1,
                 .wgmma = uses,
                 .wide = uses && channels > 128};
  LLVMContextRef llvm = LLVMContextCreate();
  LLVMModuleRef module = LLVMModuleCreateWithNameInContext("conv", llvm);
  for (int pass = 0; pass < 3; pass++) {
    s.pass = (NncConvPass)pass;
    for (int i = 0; i < conv_template_launches(&s); i++) {
      TemplateLaunch l;
      char name[16];
      snprintf(name, sizeof name, "%s_%d", pass_names[pass], i);
      conv_template_launch(&s, i, &l);
      conv_template_build(module, &s, i, name);
      CHECK(l.shared_bytes <= (uses ? 227 : 99) * 1024, "%d bytes of shared memory", l.shared_bytes);
    }
  }
  char *ir = LLVMPrintModuleToString(module), *ptx = emulate_ptx(ir, arch);
  int registers = 0, spills = 0;
  CHECK(ptx && uses == (strstr(ptx, "wgmma.mma_async") != NULL), "products of %s for %s", type_names[type], arch);
  CHECK(ptx && emulate_assemble(ptx, arch, &registers, &spills), "%s for %s is refused", type_names[type], arch);
  CHECK(spills <= 0, "%s for %s spills %d bytes", type_names[type], arch, spills);
  if (getenv("NNC_TEST_TABLE"))
    printf("%-5s %-7s registers %3d, spills %d\n", type_names[type], arch, registers, spills);
  free(ptx);
  LLVMDisposeMessage(ir);
  LLVMDisposeModule(module);
  LLVMContextDispose(llvm);
}

// Of 16 bits: both with the products of warps and with those of warpgroups.
static void test_narrow(void) {
#define CONV(t, ...) test_conv((ConvShape){.type = t, __VA_ARGS__})
  CONV(TILE_BF16, .n = 3, .c = 16, .h = 9, .w = 9, .o = 136, .kh = 1, .kw = 1, .stride = {2, 2});
  CONV(TILE_BF16, .n = 2, .c = 80, .h = 6, .w = 7, .o = 24, .kh = 3, .kw = 3, .pad = {2, 2}, .dilation = {2, 2});
  CONV(TILE_BF16, .n = 5, .c = 48, .h = 12, .w = 12, .o = 32, .kh = 3, .kw = 3, .pad = {1, 1}, .groups = 2);
  CONV(TILE_BF16, .n = 2, .c = 72, .h = 5, .w = 5, .o = 72, .kh = 3, .kw = 3, .pad = {1, 1});
  CONV(TILE_F16, .c = 8, .h = 5, .w = 5, .o = 16, .kh = 5, .kw = 5, .pad = {2, 2});
  CONV(TILE_BF16, .n = 3, .c = 136, .h = 9, .w = 7, .o = 136, .kh = 2, .kw = 2, .pad = {1, 0});
  CONV(TILE_F16, .n = 2, .c = 328, .h = 9, .w = 9, .o = 64, .kh = 1, .kw = 1);
  CONV(TILE_F16, .n = 3, .c = 64, .h = 9, .w = 10, .o = 200, .kh = 1, .kw = 1);
  CONV(TILE_BF16, .n = 2, .c = 48, .h = 7, .w = 9, .o = 80, .kh = 1, .kw = 1, .groups = 2);
}

int main(void) {
  if (getenv("NNC_TEST_TABLE")) {
    static const char *const archs[] = {"sm_80", "sm_89", "sm_90a", "sm_100"};
    for (int t = 0; t < 4; t++)
      for (int i = 0; i < 4; i++) test_ptx((TileType)t, 128, archs[i]), test_ptx((TileType)t, 64, archs[i]);
    return check_report();
  }
  test_ptx(TILE_BF16, 64, "sm_90a");
  test_ptx(TILE_F32, 128, "sm_80");
  test_ptx(TILE_F16, 128, "sm_90a");
  test_ptx(TILE_BF16, 256, "sm_90a");
  test_narrow();
  wgmma = true;
  test_narrow();
  wide = true;
  CONV(TILE_BF16, .n = 2, .c = 256, .h = 9, .w = 9, .o = 264, .kh = 1, .kw = 1);
  CONV(TILE_F16, .n = 3, .c = 24, .h = 9, .w = 7, .o = 256, .kh = 3, .kw = 3, .pad = {1, 1}, .stride = {1, 2});
  CONV(TILE_BF16, .n = 1, .c = 520, .h = 5, .w = 7, .o = 16, .kh = 2, .kw = 2, .pad = {1, 0});
  CONV(TILE_F32, .c = 4, .h = 1, .w = 1, .o = 4, .kh = 1, .kw = 1);
  CONV(TILE_F32, .n = 2, .c = 36, .h = 7, .w = 5, .o = 20, .kh = 3, .kw = 3, .pad = {1, 1});
  CONV(TILE_F32, .c = 16, .h = 11, .w = 13, .o = 8, .kh = 3, .kw = 2, .stride = {2, 3}, .pad = {1, 0});
  CONV(TILE_F32, .n = 1, .c = 132, .h = 4, .w = 5, .o = 132, .kh = 1, .kw = 1);
  CONV(TILE_TF32, .n = 2, .c = 132, .h = 5, .w = 5, .o = 12, .kh = 2, .kw = 2);
  CONV(TILE_TF32, .c = 16, .h = 8, .w = 8, .o = 16, .kh = 3, .kw = 3, .pad = {1, 1}, .stride = {2, 2}, .groups = 4);
#define GROUPED(...) test_conv((ConvShape){.type = TILE_F32, .grouped = true, __VA_ARGS__})
  GROUPED(.n = 2, .c = 12, .h = 7, .w = 5, .o = 12, .kh = 3, .kw = 3, .pad = {1, 1}, .groups = 3);
  GROUPED(.n = 1, .c = 6, .h = 9, .w = 6, .o = 10, .kh = 3, .kw = 2, .stride = {2, 1}, .pad = {1, 0}, .groups = 2);
  GROUPED(.n = 3, .c = 7, .h = 5, .w = 5, .o = 21, .kh = 1, .kw = 1, .groups = 7);
  GROUPED(.n = 1, .c = 40, .h = 6, .w = 7, .o = 24, .kh = 3, .kw = 3, .stride = {2, 2}, .pad = {2, 2},
          .dilation = {2, 2}, .groups = 4);
  return check_report();
}
