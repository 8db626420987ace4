// The inputs of a library of several models, predictions of two of them, and what is said where outputs of both are
// asked for.
#include <stdio.h>

#include "libmodels.h"

int main(void) {
  const nnc_model *m = &code_model;
  nnc_net *net;
  char message[256];
  float z[3 * 3] = {3, 3, 3}, made[3 * 5], score[3], sum[3];
  if (m->create(NULL, &net, message, sizeof message)) return puts(message), 1;
  nnc_tensor noise = {.name = "z", .type = NNC_TYPE_F32, .rank = 2, .dim = {3, 3}, .data = z},
             image = {.name = "output.generator", .type = NNC_TYPE_F32, .rank = 2, .dim = {3, 5}, .data = made},
             x = {.name = "x", .type = NNC_TYPE_F32, .rank = 2, .dim = {3, 5}, .data = made},
             told[] = {{.name = "output.critic.0", .type = NNC_TYPE_F32, .rank = 2, .dim = {3, 1}, .data = score},
                       {.name = "output.critic.1", .type = NNC_TYPE_F32, .rank = 1, .dim = {3}, .data = sum}},
             found;
  for (int i = 0; !m->describe(net, i, &found) && found.role == NNC_ROLE_INPUT; i++)
    printf("%s [%d, %d]\n", found.name, (int)found.dim[0], (int)found.dim[1]);
  if (!m->find(net, "x", &found)) printf("find %s [%d, %d]\n", found.name, (int)found.dim[0], (int)found.dim[1]);
  printf("generator %d\n", m->predict(net, 1, &noise, 1, &image));
  printf("critic %d\n", m->predict(net, 1, &x, 2, told));
  for (int i = 0; i < 3; i++) {
    float all = 0;
    for (int k = 0; k < 5; k++) all += made[5 * i + k];
    if (all - sum[i] > 1e-5f || sum[i] - all > 1e-5f) printf("record %d: %g, not %g\n", i, sum[i], all);
  }
  nnc_tensor both[] = {image, told[0]};
  if (m->predict(net, 1, &noise, 2, both)) puts(m->last_error(net));
  float codes[3 * 3];
  both[1] = (nnc_tensor){.name = "output.code", .type = NNC_TYPE_F32, .rank = 2, .dim = {3, 3}, .data = codes};
  if (m->predict(net, 1, &noise, 2, both)) puts(m->last_error(net));
  m->destroy(net);
  return 0;
}
