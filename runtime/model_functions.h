// What the table of a library holds (runtime/model.c), for the program.c of one: NNC_MODEL_TABLE(mlp_model, "mlp",
// ...).
#ifndef NNC_RUNTIME_MODEL_FUNCTIONS_H
#define NNC_RUNTIME_MODEL_FUNCTIONS_H

#include "runtime/nnc.h"

// As the members of nnc_model.
nnc_status model_create(const nnc_options *options, nnc_net **net, char *message, size_t size);
void model_destroy(nnc_net *net);
const char *model_last_error(const nnc_net *net);
nnc_status model_info(nnc_net *net, nnc_info *info);
nnc_status model_describe(nnc_net *net, int64_t number, nnc_tensor *tensor);
nnc_status model_find(nnc_net *net, const char *name, nnc_tensor *tensor);
nnc_status model_get(nnc_net *net, const nnc_tensor *to);
nnc_status model_set(nnc_net *net, const nnc_tensor *from);
nnc_status model_step(nnc_net *net, int n, const nnc_tensor *inputs);
nnc_status model_step_values(nnc_net *net, int n, const nnc_tensor *inputs, int n_values, const nnc_tensor *values);
nnc_status model_begin_text(nnc_net *net);
nnc_status model_evaluate(nnc_net *net, int n, const nnc_tensor *inputs);
nnc_status model_predict(nnc_net *net, int n, const nnc_tensor *inputs, int n_outputs, const nnc_tensor *outputs);
nnc_status model_save(nnc_net *net, const char *path, int what);
nnc_status model_load(nnc_net *net, const char *path, int what);
nnc_status model_get_number(nnc_net *net, const char *name, double *value);
nnc_status model_set_number(nnc_net *net, const char *name, double value);
nnc_status model_output_shape(nnc_net *net, int n, const nnc_tensor *inputs, nnc_tensor *output);

// model.c's own name of the table: what a library offers may be found in another library.
extern const nnc_model model_table;

// The one symbol that a library offers; a shared one offers it as nnc_library_model, too, for who loads it and does not
// know its name.
#define NNC_MODEL_TABLE(symbol, model_name, source_name, version, target_name) \
  const nnc_model model_table = {.interface = NNC_INTERFACE,                   \
                                 .name = model_name,                           \
                                 .source = source_name,                        \
                                 .compiler = version,                          \
                                 .target = target_name,                        \
                                 .create = model_create,                       \
                                 .destroy = model_destroy,                     \
                                 .last_error = model_last_error,               \
                                 .info = model_info,                           \
                                 .describe = model_describe,                   \
                                 .find = model_find,                           \
                                 .get = model_get,                             \
                                 .set = model_set,                             \
                                 .step = model_step,                           \
                                 .step_values = model_step_values,             \
                                 .begin_text = model_begin_text,               \
                                 .evaluate = model_evaluate,                   \
                                 .predict = model_predict,                     \
                                 .save = model_save,                           \
                                 .load = model_load,                           \
                                 .get_number = model_get_number,               \
                                 .set_number = model_set_number,               \
                                 .output_shape = model_output_shape};          \
  extern const nnc_model symbol __attribute__((alias("model_table")));         \
  extern const nnc_model nnc_library_model __attribute__((alias("model_table")))

#endif
