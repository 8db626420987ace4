// The header in C++, and a library that is loaded by a program that does not know its name: twice LIBRARY.
#include <dlfcn.h>

#include <cstdio>
#include <vector>

#include "libconv.h"
#include "libnet.h"

// The same code for any model. Inputs are written where the step reads them.
static double train(const nnc_model &m, int steps) {
  nnc_net *net = nullptr;
  char message[256];
  if (m.create(nullptr, &net, message, sizeof message)) return std::puts(message), -1;
  nnc_tensor inputs[2];
  m.find(net, "image", &inputs[0]);
  m.find(net, "label", &inputs[1]);
  for (int64_t i = 0; i < inputs[0].bytes; i++) static_cast<unsigned char *>(inputs[0].data)[i] = i * 37 % 251;
  for (int64_t i = 0; i < inputs[1].bytes; i++) static_cast<unsigned char *>(inputs[1].data)[i] = i % 3;
  std::vector<unsigned char> image(static_cast<unsigned char *>(inputs[0].data),
                                   static_cast<unsigned char *>(inputs[0].data) + inputs[0].bytes),
      label(static_cast<unsigned char *>(inputs[1].data), static_cast<unsigned char *>(inputs[1].data) + inputs[1].bytes);
  double loss = -1;
  for (int i = 0; i < steps; i++) {
    if (m.step(net, 2, inputs)) return std::puts(m.last_error(net)), -1;
    inputs[0].data = image.data(), inputs[1].data = label.data();   // the step has used the place
  }
  nnc_tensor result = {};
  result.name = "loss", result.type = NNC_TYPE_F64, result.data = &loss;
  m.get(net, &result);
  m.destroy(net);
  return loss;
}

int main(int argc, char **argv) {
  double net = train(net_model, 5), conv = train(conv_model, 5), again = train(net_model, 5), loaded = net;
  if (argc > 1) {
    void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    if (!library) return std::puts(dlerror()), 1;
    loaded = train(*static_cast<const nnc_model *>(dlsym(library, "nnc_library_model")), 5);
  }
  std::printf("%s\n", net > 0 && conv > 0 && net != conv && net == again && net == loaded ? "same" : "different");
}
