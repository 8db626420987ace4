// See prediction.h.
#include "compiler/prediction.h"

#include "support/bytes.h"

static void print_seconds(FILE *out, const char *what, double seconds) {
  fprintf(out, "%-21s ", what);
  if (seconds < 1e-3) fprintf(out, "%.1f us\n", seconds * 1e6);
  else if (seconds < 1) fprintf(out, "%.2f ms\n", seconds * 1e3);
  else fprintf(out, "%.3f s\n", seconds);
}

static void print_size(FILE *out, const char *what, double bytes) {
  char text[32];
  fprintf(out, "%-21s %s", what, print_bytes((int64_t)bytes, text, sizeof text));
}

// Tokens of a record, 1: not counted in tokens.
static int64_t tokens_of_record(MlirOperation top) {
  MlirAttribute list = mlirOperationGetAttributeByName(top, nn_string_ref(ATTR_data));
  int64_t most = 1;
  for (intptr_t i = 0; i < mlirArrayAttrGetNumElements(list); i++) {
    MlirAttribute n = mlirDictionaryAttrGetElementByName(mlirArrayAttrGetElement(list, i), nn_string_ref("sequence"));
    if (!mlirAttributeIsNull(n) && mlirIntegerAttrGetValueInt(n) > most) most = mlirIntegerAttrGetValueInt(n);
  }
  return most;
}

static int64_t micro_batches(MlirOperation top) {
  int64_t n = nn_attr_i64(top, ATTR_accumulate, 1);
  return n > 1 ? n : 1;
}

static void add_times(StepTimes *p, StepTimes more, double times) {
  p->seconds += times * more.seconds, p->computing += times * more.computing;
  p->exchanging += times * more.exchanging, p->bytes_sent += times * more.bytes_sent;
  p->moving_out += times * more.moving_out, p->moving_in += times * more.moving_in;
}

// Of a step; a phase that is run every few steps counts with its share.
static StepTimes predict(MlirModule module, const CodegenTarget *target, int64_t ranks) {
  StepTimes all = {0};
  double earlier = (double)(micro_batches(mlirModuleGetOperation(module)) - 1);
  NN_FOREACH_OP (op, mlirModuleGetBody(module)) {
    if (!nn_is(op, "func.func") || (!nn_is_train(op) && !nn_is_accumulate(op))) continue;
    MlirAttribute phase = nn_phase_entry(module, op);
    NnOpCall entry = {.attrs = phase};
    double share = mlirAttributeIsNull(phase) ? 1 : 1 / (double)nn_call_i64(&entry, "every", 1);
    add_times(&all, codegen_step_times(target, op, ranks), nn_is_train(op) ? share : share * earlier);
  }
  return all;
}

double prediction_items(MlirModule module, int64_t ranks, bool *tokens) {
  MlirOperation top = mlirModuleGetOperation(module);
  int64_t of_record = tokens_of_record(top);
  *tokens = of_record > 1;
  return (double)(nn_attr_i64(top, ATTR_batch, 1) * micro_batches(top) * ranks * of_record);
}

double prediction_seconds(MlirModule module, const CodegenTarget *target, int64_t ranks) {
  return predict(module, target, ranks).seconds;
}

void prediction_print(MlirModule module, const CodegenTarget *target, int64_t ranks, FILE *out) {
  MlirOperation top = mlirModuleGetOperation(module);
  StepTimes p = predict(module, target, ranks);
  bool tokens;
  double items = prediction_items(module, ranks, &tokens);
  fprintf(out, "%-21s %lld\n", "ranks", (long long)ranks);
  print_size(out, "memory of each", (double)nn_attr_i64(top, ATTR_arena, 0));
  char text[32];
  fprintf(out, ", %s of it parameters and optimizer state\n",
          print_bytes(nn_attr_i64(top, ATTR_persistent, 0), text, sizeof text));
  if (nn_has_attr(top, ATTR_far_arena)) {
    print_size(out, "far away", (double)nn_attr_i64(top, ATTR_far_arena, 0));
    fprintf(out, ", %s of it parameters and optimizer state\n",
            print_bytes(nn_attr_i64(top, ATTR_far_persistent, 0), text, sizeof text));
  }
  print_seconds(out, "step", p.seconds);
  print_seconds(out, "  computing", p.computing);
  if (p.moving_out + p.moving_in > 0) {
    print_seconds(out, "  copying out", p.moving_out);
    print_seconds(out, "  copying in", p.moving_in);
    print_seconds(out, "  of that exposed", p.seconds > p.computing ? p.seconds - p.computing : 0);
  }
  if (ranks > 1) {
    print_seconds(out, "  exchanging", p.exchanging);
    print_seconds(out, "  of that exposed", p.seconds > p.computing ? p.seconds - p.computing : 0);
    print_size(out, "  sent by each", p.bytes_sent);
    fputc('\n', out);
  }
  fprintf(out, "%-21s %.6g a second\n", tokens ? "tokens" : "records", items / p.seconds);
}
