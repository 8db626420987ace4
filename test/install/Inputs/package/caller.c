// A program with the model as a library.
#include <stdio.h>

#include "libcalled.h"

int main(void) {
  nnc_net *net;
  char message[256];
  nnc_info info;
  if (classifier_model.create(NULL, &net, message, sizeof message) || classifier_model.info(net, &info)) return 1;
  printf("%s takes %lld bytes\n", classifier_model.name, (long long)info.arena_bytes);
  classifier_model.destroy(net);
  return 0;
}
