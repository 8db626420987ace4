// values: the outputs and gradients of one step on the batch of values.py, each number in a line of its name. Then what
// a text carries over, where libcarried.so is there.
#include "libcarried.h"
#include "libnet.h"
#include "libnoise.h"
#include "test.h"

static nnc_net *make(const nnc_model *m) {
  nnc_net *net;
  char message[512];
  CHECK(m->create(NULL, &net, message, sizeof message) == NNC_OK, "%s", message);
  if (!net) exit(1);
  return net;
}

static void print_values(void) {
  static unsigned char image[16][16];
  static int32_t label[16];
  nnc_tensor inputs[] = {{.name = "image", .type = NNC_TYPE_U8, .data = image},
                         {.name = "label", .type = NNC_TYPE_I32, .data = label}},
             values[32] = {{0}}, t;
  int n = 0;
  for (int i = 0; i < 256; i++) image[i / 16][i % 16] = (unsigned char)(i * 37 % 251);
  for (int i = 0; i < 16; i++) label[i] = i % 3;
  nnc_net *net = make(&net_model);
  for (int64_t i = 0; net_model.describe(net, i, &t) == NNC_OK; i++)
    if (t.role == NNC_ROLE_VALUE) {
      t.type = n % 2 ? NNC_TYPE_F64 : t.type;   // some as they are, some converted
      t.bytes = 0, t.data = calloc(16 * 16, 8), values[n++] = t;
    }
  CHECK(net_model.step_values(net, 2, inputs, n, values) == NNC_OK, "%s", net_model.last_error(net));
  for (int i = 0; i < n; i++) {
    int64_t elements = 1;
    for (int k = 0; k < values[i].rank; k++) elements *= values[i].dim[k];
    for (int64_t k = 0; k < elements; k++)
      printf("%s %.9g\n", values[i].name,
             values[i].type == NNC_TYPE_F64 ? ((double *)values[i].data)[k] : (double)((float *)values[i].data)[k]);
    free(values[i].data);
  }
  net_model.destroy(net);
}

static void print_noise(void) {
  static float x[5][3], y[5][3];
  nnc_net *net = make(&noise_model);
  nnc_tensor input = {.name = "x", .type = NNC_TYPE_F32, .rank = 2, .dim = {5, 3}, .data = x},
             output = {.name = "output.noise", .type = NNC_TYPE_F32, .rank = 2, .dim = {5, 3}, .data = y};
  CHECK(noise_model.predict(net, 1, &input, 1, &output) == NNC_OK, "%s", noise_model.last_error(net));
  for (int i = 0; i < 15; i++) printf("output.noise %.9g\n", (double)y[i / 3][i % 3]);
  noise_model.destroy(net);
}

static double count(nnc_net *net) {
  double n[2] = {-1};
  CHECK(counter_model.get(net, &(nnc_tensor){.name = "n", .type = NNC_TYPE_F64, .data = n}) == NNC_OK, "%s",
        counter_model.last_error(net));
  return n[0];
}

static void begin_texts(void) {
  static int32_t tokens[2][4];
  nnc_tensor inputs[] = {{.name = "tokens", .type = NNC_TYPE_I32, .data = tokens},
                         {.name = "target", .type = NNC_TYPE_I32, .data = tokens}};
  nnc_net *net = make(&counter_model);
  for (int i = 0; i < 3; i++) CHECK(counter_model.step(net, 2, inputs) == NNC_OK, "%s", counter_model.last_error(net));
  CHECK(count(net) == 13, "%g", count(net));
  // a prediction and an evaluation are texts of their own
  CHECK(counter_model.evaluate(net, 2, inputs) == NNC_OK && count(net) == 13, "%g", count(net));
  static float y[2][4][128];
  nnc_tensor output = {.name = "output.counter.0", .type = NNC_TYPE_F32, .data = y};
  CHECK(counter_model.predict(net, 1, inputs, 1, &output) == NNC_OK, "%s", counter_model.last_error(net));
  CHECK(count(net) == 13, "%g", count(net));
  CHECK(counter_model.begin_text(net) == NNC_OK, "%s", counter_model.last_error(net));
  CHECK(count(net) == 10, "%g", count(net));
  CHECK(counter_model.step(net, 2, inputs) == NNC_OK && count(net) == 11, "%g", count(net));
  counter_model.destroy(net);
}

int main(void) {
  print_values();
  print_noise();
  begin_texts();
  return failures > 0;
}
