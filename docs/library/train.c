// Trains a model on batches of its own making, predicts, saves: train MODEL.safetensors. docs/library.md says how to
// compile it; a test does.
#include <stdio.h>
#include <stdlib.h>

#include "libmlp.h"

// Everything that fails says why.
static void check(nnc_status status, const nnc_net *net) {
  if (status == NNC_OK) return;
  fprintf(stderr, "error %d: %s\n", status, mlp_model.last_error(net));
  exit(1);
}

// A batch of images, each with one bright row of its class.
static void make_batch(int64_t n, unsigned char *image, unsigned char *label) {
  for (int64_t i = 0; i < n; i++) {
    label[i] = (unsigned char)(rand() % 10);
    for (int p = 0; p < 28 * 28; p++)
      image[i * 28 * 28 + p] = (unsigned char)(rand() % 64 + (p / 28 == 2 * label[i] ? 128 : 0));
  }
}

int main(int argc, char **argv) {
  nnc_net *net;
  char message[1024];
  nnc_options options = {.steps = 200};
  if (mlp_model.create(&options, &net, message, sizeof message) != NNC_OK) {
    fprintf(stderr, "%s\n", message);
    return 1;
  }
  nnc_info info;
  check(mlp_model.info(net, &info), net);
  printf("%s takes %.1f MiB\n", mlp_model.name, (double)info.host_bytes / (1 << 20));

  int64_t n = info.step_records;
  unsigned char *image = (unsigned char *)malloc((size_t)n * 28 * 28), *label = (unsigned char *)malloc((size_t)n);
  nnc_tensor batch[] = {{.name = "image", .type = NNC_TYPE_U8, .data = image},
                        {.name = "label", .type = NNC_TYPE_U8, .data = label}};
  double loss = 0, accuracy = 0;
  nnc_tensor loss_to = {.name = "loss", .type = NNC_TYPE_F64, .data = &loss},
             accuracy_to = {.name = "accuracy", .type = NNC_TYPE_F64, .data = &accuracy};
  for (int step = 0; step < 200; step++) {
    make_batch(n, image, label);
    if (step == 150) check(mlp_model.set_number(net, "learning_rate", 1e-4), net);   // a schedule of one's own
    check(mlp_model.step(net, 2, batch), net);
    check(mlp_model.get(net, &loss_to), net);
    check(mlp_model.get(net, &accuracy_to), net);
    if (step % 50 == 49) printf("step %d  loss %.4f  accuracy %.3f\n", step + 1, loss, accuracy);
  }

  float scores[3][10];
  make_batch(3, image, label);
  nnc_tensor inputs = {.name = "image", .type = NNC_TYPE_U8, .rank = 3, .dim = {3, 28, 28}, .data = image},
             outputs = {.name = "output.mlp", .type = NNC_TYPE_F32, .rank = 2, .dim = {3, 10}, .data = scores};
  check(mlp_model.predict(net, 1, &inputs, 1, &outputs), net);
  for (int i = 0; i < 3; i++) {
    int best = 0;
    for (int c = 1; c < 10; c++) best = scores[i][c] > scores[i][best] ? c : best;
    printf("record %d: class %d, predicted %d\n", i, label[i], best);
  }
  if (argc > 1) check(mlp_model.save(net, argv[1], NNC_CHECKPOINT), net);
  mlp_model.destroy(net);
  free(image);
  free(label);
  return 0;
}
