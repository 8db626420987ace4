// Private to model*.c: an instance of a library's model.
#ifndef NNC_RUNTIME_MODEL_H
#define NNC_RUNTIME_MODEL_H

#include <pthread.h>
#include <stdatomic.h>

#include "runtime/model_functions.h"
#include "runtime/runtime.h"
#include "runtime/training.h"

typedef struct ModelTensor {
  nnc_tensor shown;          // as describe tells it
  const NncTensor *tensor;   // Borrowed; NULL: a loss or metric. Of a value any of the taps that show it
  double value;              // of one: NaN where the last call has not computed it
  // Of a value while a step runs that is asked for it: the caller's (Borrowed), memory for it where that has another
  // type (Owned), and whether it has been there.
  const nnc_tensor *asked;
  void *unconverted;
  bool known;
} ModelTensor;

struct nnc_net {
  const nnc_model *model;   // whose library's it is; first, for all libraries
  Listener listener;
  atomic_flag used;
  bool broken;
  void (*report)(void *context, int is_error, const char *message);
  void *context;
  pthread_mutex_t hearing;   // of the message
  char message[4096];
  size_t message_size;
  Session s;
  Trainer run;
  Dataset train_data, eval_data;
  bool has_data, has_eval_data;
  int functions;        // SESSION_TRAIN and so on
  int64_t host_bytes;   // of the arena and the data
  int n_tensors;
  ModelTensor *tensors;   // Owned
};

// Says what is wrong, and returns the status.
#define FAIL(status, ...) (report_cause((status), __VA_ARGS__), (status))

// A call: what it does, in the calling thread, with messages and what cannot go on coming back. The status of the first
// error that tells one stands before what `work` returns.
typedef nnc_status (*ModelWork)(nnc_net *net, void *arguments);
nnc_status model_call(nnc_net *net, ModelWork work, void *arguments);
nnc_status model_refuse(nnc_net *net, const char *why);   // NNC_ERROR_ARGUMENT

// model_tensors.c
void model_list_tensors(nnc_net *net);                       // makes net->tensors
ModelTensor *model_tensor(nnc_net *net, const char *name);   // NULL: there is none
ModelTensor *model_value(nnc_net *net, const char *name);    // of a step
void model_forget_results(nnc_net *net);                     // losses and metrics are not known
void model_note_results(nnc_net *net, const Metrics *m);     // they are these
// All inputs of f are among those given, and fit, each of `records` records; 0: of any number, the same for all, which
// is written there.
nnc_status model_check_inputs(nnc_net *net, const NncFunction *f, int n, const nnc_tensor *inputs, int64_t *records);
// Records [first, first + batch) of them to where f reads them; beyond the last one it repeats.
void model_write_inputs(nnc_net *net, const NncFunction *f, int n, const nnc_tensor *inputs, int64_t first,
                        int64_t records);
// Elements to and from the caller's memory, in its type.
nnc_status model_check_tensor(const nnc_tensor *given, NncDtype dtype, int rank, const int64_t *dim, bool reads);

#endif
