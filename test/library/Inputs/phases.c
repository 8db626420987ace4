// Batches of the caller's, of which the second phase of e2e/Inputs/phases_labels.nn alone reads labels and words.
#include "libnet.h"
#include "test.h"

int main(void) {
  static float x[4][6];
  int32_t label[4] = {0, 1, 4, -100}, words[4][3] = {{9, 0, 1}};
  nnc_tensor inputs[3] = {{.name = "x", .type = NNC_TYPE_F32, .data = x},
                          {.name = "label", .type = NNC_TYPE_I32, .data = label},
                          {.name = "words", .type = NNC_TYPE_I32, .data = words}};
  const nnc_model *m = &generator_model;
  nnc_net *net;
  nnc_info info;
  char message[512];
  if (m->create(NULL, &net, message, sizeof message)) return 1;
  CHECK(m->step(net, 3, inputs) == NNC_OK, "%s", m->last_error(net));
  label[2] = 5;
  CHECK(m->step(net, 3, inputs) == NNC_ERROR_VALUE, "a label");
  CHECK(strstr(m->last_error(net), "label: element 2 is 5, outside of 0..4 and not -100"), "%s", m->last_error(net));
  label[2] = 4, words[3][2] = -1;
  CHECK(m->step(net, 3, inputs) == NNC_ERROR_VALUE, "a word");
  CHECK(strstr(m->last_error(net), "words: element 11 is -1, outside of 0..9"), "%s", m->last_error(net));
  CHECK(m->info(net, &info) == NNC_OK && info.step == 1, "%lld", (long long)info.step);
  m->destroy(net);
  return failures > 0;
}
