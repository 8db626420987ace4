// steps DATA STEPS OUT: as many steps on the program's data as `train` makes, and the checkpoint. A seed that changes
// in an epoch changes the rest of it, also where the checkpoint is read. Of batches of the caller's a checkpoint does
// not say how many there are. Weights that are loaded leave the optimizer's state as the last step left it.
#include "libnet.h"
#include "test.h"

static nnc_net *make(const nnc_options *o) {
  nnc_net *net;
  char message[512];
  CHECK(net_model.create(o, &net, message, sizeof message) == NNC_OK, "%s", message);
  if (!net) exit(1);
  return net;
}

static double step(nnc_net *net) {
  double loss = -1;
  CHECK(net_model.step(net, 0, NULL) == NNC_OK, "%s", net_model.last_error(net));
  net_model.get(net, &(nnc_tensor){.name = "loss", .type = NNC_TYPE_F64, .data = &loss});
  return loss;
}

static void change_seed(const char *data) {
  nnc_net *net = make(&(nnc_options){.data = data});
  step(net);
  CHECK(net_model.set_number(net, "seed", 5) == NNC_OK, "%s", net_model.last_error(net));
  CHECK(net_model.save(net, "seed.safetensors", NNC_CHECKPOINT) == NNC_OK, "%s", net_model.last_error(net));
  nnc_net *again = make(&(nnc_options){.data = data, .checkpoint = "seed.safetensors"});
  double a = step(net), b = step(again);
  CHECK(a == b, "%.17g and %.17g", a, b);
  net_model.destroy(net);
  net_model.destroy(again);
}

static void save_without_data(void) {
  nnc_net *net = make(NULL);
  CHECK(net_model.save(net, "batches.safetensors", NNC_CHECKPOINT) == NNC_OK, "%s", net_model.last_error(net));
  net_model.destroy(net);
}

static void load_weights(const char *data) {
  nnc_net *net = make(&(nnc_options){.data = data}), *other = make(&(nnc_options){.data = data});
  nnc_info info;
  int compared = 0;
  step(net), step(other);
  CHECK(net_model.save(net, "weights.safetensors", NNC_WEIGHTS) == NNC_OK, "%s", net_model.last_error(net));
  step(net), step(other);
  CHECK(net_model.load(net, "weights.safetensors", NNC_WEIGHTS) == NNC_OK, "%s", net_model.last_error(net));
  net_model.info(net, &info);
  for (int64_t i = 0; i < info.tensors; i++) {
    nnc_tensor t;
    net_model.describe(net, i, &t);
    if (t.role != NNC_ROLE_OPTIMIZER) continue;
    char *a = malloc((size_t)t.bytes), *b = malloc((size_t)t.bytes);
    t.data = a;
    CHECK(net_model.get(net, &t) == NNC_OK, "%s", net_model.last_error(net));
    t.data = b;
    CHECK(net_model.get(other, &t) == NNC_OK, "%s", net_model.last_error(other));
    CHECK(!memcmp(a, b, (size_t)t.bytes), "%s", t.name);
    free(a);
    free(b);
    compared++;
  }
  CHECK(compared > 4, "%d", compared);
  net_model.destroy(net);
  net_model.destroy(other);
}

int main(int argc, char **argv) {
  if (argc != 4) return 2;
  nnc_net *net;
  char message[512];
  nnc_info info;
  int64_t steps = atoi(argv[2]);
  nnc_status status = net_model.create(&(nnc_options){.data = argv[1]}, &net, message, sizeof message);
  CHECK(status == NNC_OK, "%s", message);
  if (status) return 1;
  for (int64_t i = 0; i < steps; i++) CHECK(net_model.step(net, 0, NULL) == NNC_OK, "%s", net_model.last_error(net));
  CHECK(net_model.save(net, argv[3], NNC_CHECKPOINT) == NNC_OK, "%s", net_model.last_error(net));
  CHECK(net_model.info(net, &info) == NNC_OK && info.step == steps, "%lld steps", (long long)info.step);
  CHECK(info.arena_bytes > 0 && info.data_bytes > 605 * 16 &&
            info.host_bytes == (info.threads ? info.arena_bytes : 0) + info.data_bytes,
        "memory");
  double loss, accuracy;
  CHECK(net_model.get(net, &(nnc_tensor){.name = "loss", .type = NNC_TYPE_F64, .data = &loss}) == NNC_OK, "loss");
  printf("loss %.9g\n", loss);
  CHECK(net_model.evaluate(net, 0, NULL) == NNC_OK, "%s", net_model.last_error(net));
  net_model.get(net, &(nnc_tensor){.name = "loss", .type = NNC_TYPE_F64, .data = &loss});
  net_model.get(net, &(nnc_tensor){.name = "accuracy", .type = NNC_TYPE_F64, .data = &accuracy});
  printf("loss %.6g\naccuracy %.6g\n", loss, accuracy);
  net_model.destroy(net);
  change_seed(argv[1]);
  save_without_data();
  load_weights(argv[1]);
  return failures > 0;
}
