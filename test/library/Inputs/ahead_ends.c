// Instances that are destroyed while threads of theirs still read records of the validation ahead.
#include <stdio.h>

#include "libnet.h"

int main(void) {
  char message[300];
  for (int i = 0; i < 3; i++) {
    nnc_net *net;
    if (net_model.create(&(nnc_options){.data = ".", .threads = 1}, &net, message, sizeof message))
      return fprintf(stderr, "%s\n", message), 1;
    if (net_model.evaluate(net, 0, NULL)) return fprintf(stderr, "%s\n", net_model.last_error(net)), 1;
    net_model.destroy(net);
  }
  return 0;
}
