// A network compiled by `nnc --emit=library`, called from C or C++ (docs/library.md). A library offers one thing, a
// table of functions named after its model: that of a model mlp is `mlp_model`. So one program can hold any number of
// models, linked or loaded by dlopen, and code for any of them takes a `const nnc_model *`.
//
// Nothing is printed, no signal is handled, the process is never ended. All memory of a step is taken by create. Each
// instance may be used by one thread at a time, not always the same one; several instances by several threads at once.
#ifndef NNC_H
#define NNC_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define NNC_INTERFACE 3   // of nnc_model; another number is another table

typedef struct nnc_net nnc_net;   // an instance: parameters, optimizer state, and the memory of a step

typedef enum nnc_status {
  NNC_OK,
  NNC_ERROR_ARGUMENT,     // NULL where something is needed, a number out of range, an instance of another model
  NNC_ERROR_BUSY,         // the instance is in use, by another thread or by what has called this
  NNC_ERROR_BROKEN,       // a call before has left the instance unusable
  NNC_ERROR_NAME,         // there is no such tensor, number, or input, or it is there twice
  NNC_ERROR_TYPE,         // the type of its elements cannot be converted
  NNC_ERROR_SHAPE,        // or number of records, or bytes
  NNC_ERROR_VALUE,        // a class or an index that is out of range
  NNC_ERROR_FUNCTION,     // the program does not train or evaluate, or create was told that it need not
  NNC_ERROR_DATA,         // the program's own data: not there, damaged, or create was not told to read it
  NNC_ERROR_FILE,         // a file cannot be read or written, is damaged, or of another model
  NNC_ERROR_NOT_FINITE,   // the loss, or a value that was to be saved
  NNC_ERROR_MEMORY,       // more than the machine has, or than the options allow
  NNC_ERROR_MACHINE,      // its processor or GPU cannot run the program
  NNC_ERROR_DEVICE,       // a step has failed: the GPU, or the file of the far arena
  NNC_ERROR_INTERNAL,     // a bug of nnc
} nnc_status;

typedef enum nnc_type {
  NNC_TYPE_F32,
  NNC_TYPE_F64,
  NNC_TYPE_BF16,
  NNC_TYPE_F16,
  NNC_TYPE_I32,
  NNC_TYPE_I64,
  NNC_TYPE_U8,
  NNC_TYPE_BOOL,   // a byte
} nnc_type;

typedef enum nnc_role {
  NNC_ROLE_INPUT,       // of a step or of an evaluation
  NNC_ROLE_PARAMETER,   // trained
  NNC_ROLE_STATE,       // updated by steps, not trained: running statistics
  NNC_ROLE_OPTIMIZER,   // its state
  NNC_ROLE_LOSS,        // results of the last step or evaluation, f64: means over its records
  NNC_ROLE_METRIC,
  NNC_ROLE_OUTPUT,   // of predict
  NNC_ROLE_VALUE,    // of step_values; one that is an output of predict, too, has the same name
} nnc_role;

enum { NNC_MAX_DIM = 8 };

// A tensor of a program, and one of the caller's: then role is not read.
typedef struct nnc_tensor {
  const char *name;
  nnc_role role;
  nnc_type type;
  int32_t rank;
  int64_t dim[NNC_MAX_DIM];   // of inputs and outputs dim[0] counts records, but where the input has none (a graph)
  int64_t bytes;
  // the caller's: row-major. The program's: where it lies, row-major in the host's memory, to be read and written
  // between calls until destroy; NULL: it does not lie so, and get and set copy it
  void *data;
} nnc_tensor;

// Which functions an instance has: what it does not have takes no memory.
enum { NNC_TRAINS = 1, NNC_EVALUATES = 2, NNC_PREDICTS = 4 };

// All 0 is what the program says and the machine has.
typedef struct nnc_options {
  int32_t functions;        // NNC_TRAINS and so on, added up; 0: all that the program has
  int32_t threads;          // 0: OpenMP's number, up to that planned for
  int32_t device;           // number of the GPU
  const int64_t *seed;      // of initial values, shuffling and random ops; NULL: the program's
  int64_t memory;           // create fails where it would take more bytes; 0: no such limit
  int64_t steps;            // on which the schedule depends; 0: as the program says; where that is epochs of
                            // data that is not read, no end
  const char *weights;      // file of parameters and states to begin with; NULL: initial values
  const char *checkpoint;   // or file of everything, where an earlier run goes on; NULL: none
  const char *data;   // folder of the program's own data, to be read; "": where the executable looks; NULL: not read
  const char *far;    // folder or file for the far arena, of programs that have one; NULL: as compiled
  // Hears of warnings and errors as they come, from any thread that works for the instance; NULL: nobody does.
  void (*report)(void *context, int is_error, const char *message);
  void *context;
} nnc_options;

// What an instance is and takes.
typedef struct nnc_info {
  int64_t arena_bytes;    // memory of the steps, parameters included; on a GPU its memory
  int64_t far_bytes;      // in the far arena
  int64_t data_bytes;     // of the program's own data
  int64_t host_bytes;     // of the host's memory that create took, for all of this
  int64_t batch;          // records of a call of the program
  int64_t step_records;   // records of a step: several batches, where the program accumulates
  int64_t output_rows;    // of a call of predict, where an output has a row per record; 0: it does not predict
  int64_t tensors;        // that describe tells
  int64_t step;           // steps done
  int32_t threads;        // 0: none of the host compute
  int32_t functions;      // that it has: NNC_TRAINS and so on
} nnc_info;

enum { NNC_WEIGHTS, NNC_CHECKPOINT };   // parameters and states; with optimizer state, steps done and seed

// What a library offers. Every function but destroy and last_error returns NNC_OK or what went wrong, and then
// last_error tells it in words. After an error of step, NNC_ERROR_DEVICE and NNC_ERROR_INTERNAL leave an instance that
// can only be destroyed; after NNC_ERROR_NOT_FINITE the parameters are what that step left; the others leave it as it
// was.
typedef struct nnc_model {
  int32_t interface;                               // NNC_INTERFACE
  const char *name, *source, *compiler, *target;   // "mlp", "mlp.nn", nnc's version, "host" or "cuda"
  // Takes all memory and sets the initial values. options NULL: all 0. *net: Owned, destroy; NULL after an error, which
  // is told in `message`, of `size` bytes (NULL, 0: nowhere).
  nnc_status (*create)(const nnc_options *options, nnc_net **net, char *message, size_t size);
  void (*destroy)(nnc_net *net);   // NULL allowed
  // What the last call that failed said, perhaps several lines; "" before. Borrowed, until the next call.
  const char *(*last_error)(const nnc_net *net);
  nnc_status (*info)(nnc_net *net, nnc_info *info);
  // The tensors with numbers from 0 to info's `tensors`, inputs first: those of training, of evaluation, then of each
  // model of the file that add a name, or another shape or type to it. find: the first of that name.
  nnc_status (*describe)(nnc_net *net, int64_t number, nnc_tensor *tensor);
  nnc_status (*find)(nnc_net *net, const char *name, nnc_tensor *tensor);
  // A whole parameter, state, optimizer value or result, by its name, to or from the caller's memory. rank 0 and 0
  // bytes stand for the tensor's own shape. Floats are converted to and from each other, integers to floats.
  nnc_status (*get)(nnc_net *net, const nnc_tensor *to);
  nnc_status (*set)(nnc_net *net, const nnc_tensor *from);
  // One training step on the given inputs, in any order, of step_records records each; n = 0: on the next batch of the
  // program's own data. The loss and the metrics are then there for get; those of a phase whose turn it was not are
  // NaN. Types: as the input has, or convertible to it. What the input's own data points to need not be copied.
  nnc_status (*step)(nnc_net *net, int n, const nnc_tensor *inputs);
  // step, which also writes what it computes on the way into the caller's memory: outputs of the model, "output.net"
  // say, and the gradients of parameters before clipping, "grad.linear.weight" say; describe tells which (the role
  // NNC_ROLE_VALUE). Floats are converted. Of several micro-batches the outputs are those of the last one, gradients
  // those of all. What a phase computes whose turn it was not stays as it was. It takes no memory beside the arena, but
  // is slower: a program for a GPU then runs step by step.
  nnc_status (*step_values)(nnc_net *net, int n, const nnc_tensor *inputs, int n_values, const nnc_tensor *values);
  // States that go on with a text (continued=true) have their initial values again: the next step begins a text.
  nnc_status (*begin_text)(nnc_net *net);
  // Loss and metrics, without training: of the given inputs, of `batch` records; n = 0: of all of the program's eval
  // data.
  nnc_status (*evaluate)(nnc_net *net, int n, const nnc_tensor *inputs);
  // A model's outputs for any number of records, the same for all inputs, into the caller's memory. The outputs that
  // are asked for, "output.<model>", say which model of the file it is.
  nnc_status (*predict)(nnc_net *net, int n, const nnc_tensor *inputs, int n_outputs, const nnc_tensor *outputs);
  // Safetensors files, as the executable writes and reads them. what: NNC_WEIGHTS or NNC_CHECKPOINT.
  nnc_status (*save)(nnc_net *net, const char *path, int what);
  nnc_status (*load)(nnc_net *net, const char *path, int what);
  // "learning_rate" of the next steps, of the first parameter group, to which others keep their ratio; NaN: the
  // program's schedule again. "step": steps done, on which schedule, bias correction and draws depend. "steps": of the
  // schedule. "seed": of draws.
  nnc_status (*get_number)(nnc_net *net, const char *name, double *value);
  nnc_status (*set_number)(nnc_net *net, const char *name, double value);
  // The type and shape, in `output`, that the output of its name has where predict is given these inputs, which are
  // checked: a row per record, unless it has none. Not all inputs have records, and models may have batches of their
  // own.
  nnc_status (*output_shape)(nnc_net *net, int n, const nnc_tensor *inputs, nnc_tensor *output);
} nnc_model;

#ifdef __cplusplus
}
#endif
#endif
