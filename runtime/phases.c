// The phases of a training: functions of a step with a loss, an optimizer and parameters each. A program without them
// has one, the whole step, whose name is "".
#include <stdio.h>

#include "runtime/runtime.h"

int program_phases(void) { return nnc_program.n_phases > 0 ? nnc_program.n_phases : 1; }

NncPhase program_phase(int i) {
  if (nnc_program.n_phases > 0) return nnc_program.phases[i];
  return (NncPhase){.name = "",
                    .optimizer = nnc_program.optimizer,
                    .every = 1,
                    .n_groups = nnc_program.n_groups,
                    .schedule = nnc_program.schedule};
}

static const NncFunction *find(const char *word, int i) {
  char name[256];
  const char *phase = program_phase(i).name;
  snprintf(name, sizeof name, "%s%s%s", word, *phase ? "." : "", phase);
  return program_function(name);
}

const NncFunction *program_train(int i) { return find("train", i); }
const NncFunction *program_accumulate(int i) { return find("accumulate", i); }

int program_phase_of(const NncFunction *f) {
  for (int i = 0; i < program_phases(); i++)
    if (f == program_train(i) || f == program_accumulate(i)) return i;
  return 0;
}

bool phase_is_due(int i, int64_t step) { return (step + 1) % program_phase(i).every == 0; }
