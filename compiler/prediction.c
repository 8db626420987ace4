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
  for (intptr_t i = 0; !mlirAttributeIsNull(list) && i < mlirArrayAttrGetNumElements(list); i++) {
    MlirAttribute n = mlirDictionaryAttrGetElementByName(mlirArrayAttrGetElement(list, i), nn_string_ref("sequence"));
    if (!mlirAttributeIsNull(n) && mlirIntegerAttrGetValueInt(n) > most) most = mlirIntegerAttrGetValueInt(n);
  }
  return most;
}

void prediction_print(MlirModule module, const CodegenTarget *target, int64_t ranks, FILE *out) {
  MlirOperation top = mlirModuleGetOperation(module), train = nn_module_function(module, "train"),
                accumulate = nn_module_function(module, "accumulate");
  int64_t micro_batches = nn_attr_i64(top, ATTR_accumulate, 1);
  if (micro_batches < 1) micro_batches = 1;
  StepPrediction p = codegen_predict(target, train, ranks);
  for (int64_t i = 1; i < micro_batches && !mlirOperationIsNull(accumulate); i++) {
    StepPrediction more = codegen_predict(target, accumulate, ranks);
    p.seconds += more.seconds, p.computing += more.computing;
    p.exchanging += more.exchanging, p.bytes_sent += more.bytes_sent;
  }
  double records = (double)(nn_attr_i64(top, ATTR_batch, 1) * micro_batches * ranks);
  fprintf(out, "%-21s %lld\n", "ranks", (long long)ranks);
  print_size(out, "memory of each", (double)nn_attr_i64(top, ATTR_arena, 0));
  char text[32];
  fprintf(out, ", %s of it parameters and optimizer state\n",
          print_bytes(nn_attr_i64(top, ATTR_persistent, 0), text, sizeof text));
  print_seconds(out, "step", p.seconds);
  print_seconds(out, "  computing", p.computing);
  if (ranks > 1) {
    print_seconds(out, "  exchanging", p.exchanging);
    print_seconds(out, "  of that exposed", p.seconds > p.computing ? p.seconds - p.computing : 0);
    print_size(out, "  sent by each", p.bytes_sent);
    fputc('\n', out);
  }
  int64_t tokens = tokens_of_record(top);
  fprintf(out, "%-21s %.6g a second\n", tokens > 1 ? "tokens" : "records", records * (double)tokens / p.seconds);
}
