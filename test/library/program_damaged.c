// A library's tables with a result that lies behind the arena: a bug of the compiler is told, and the process goes on.
#define LOSS_RESULT ARENA
#include "runtime/model_functions.h"
#include "test/runtime/mlp.inc"

NNC_MODEL_TABLE(mlp_model, "mlp", "mlp.nn", "0", "host");

int main(void) {
  nnc_net *net;
  char message[256];
  nnc_status status = mlp_model.create(NULL, &net, message, sizeof message);
  printf("%s: %s\n", status == NNC_ERROR_INTERNAL && !net ? "internal" : "wrong", message);
  return 0;
}
