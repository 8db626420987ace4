// steps DATA STEPS OUT: as many steps on the program's data as `train` makes, and the checkpoint.
#include "libnet.h"
#include "test.h"

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
  return failures > 0;
}
