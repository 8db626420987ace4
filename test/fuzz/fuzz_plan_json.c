// Any bytes as the problem of nnc-plan: JSON, then the problem, then the plain order replayed.
#include <stdint.h>
#include <stdlib.h>

#include "passes/solver/solver.h"
#include "support/input_error.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  InputError error = {0};
  JsonDocument *document = json_parse((const char *)data, size, &error);
  if (document) json_destroy(document);
  RematProblem *problem = remat_problem_read((const char *)data, size, &error);
  if (!problem) return 0;
  RematSchedule plain = remat_baseline(problem);
  RematSimulation simulation;
  if (remat_simulate(problem, plain.exec, plain.n, &simulation, &error)) remat_simulation_free(&simulation);
  remat_schedule_free(&plain);
  remat_problem_destroy(problem);
  return 0;
}
