// The runtime inside every executable, in one place: what each file offers to the others. Data flow of a training run:
// data_*.c → batch → arena (inputs) → execute.c (kernels, library.c) → arena (loss, parameters) → progress.c, log.c,
// checkpoint.c. Functions that return bool report the reason on stderr (report_error) before they return false. Bytes,
// seconds, FLOPs throughout.
#ifndef NNC_RUNTIME_RUNTIME_H
#define NNC_RUNTIME_RUNTIME_H

#include <locale.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "runtime/library.h"
#include "runtime/nnc.h"
#include "runtime/program.h"
#include "support/bytes.h"
#include "support/clock.h"

enum { EXIT_DONE = 0, EXIT_DIAGNOSTIC = 1, EXIT_USAGE = 2, EXIT_INTERNAL = 70, EXIT_INTERRUPTED = 130 };

// ---------------------------------------------------------------------------------------------------------------------
// report.c: messages, on stderr but where a library's caller listens (model.c)
typedef struct Listener {
  void (*hear)(struct Listener *l, bool is_error, const char *message);   // from any thread that works for it
  nnc_status cause;   // of the first error since it was reset whose place knows one; NNC_OK: none has
} Listener;
// Who hears the calling thread's messages from here on; NULL: they are printed. Returns who did before.
Listener *report_listen(Listener *l);
Listener *report_listener(void);
// For uselocale: files have points in their numbers, whatever the caller of a library has set. Nothing is allocated.
static inline locale_t plain_locale(void) { return newlocale(LC_ALL_MASK, "C", (locale_t)0); }
// Where the calling thread goes when it cannot go on (no memory, a bug of ours), by longjmp; NULL: the process ends.
// Returns where it went before.
jmp_buf *report_give_up_to(jmp_buf *escape);
void report_set_name(const char *argv0);
const char *report_name(void);
void report_set_rank(int rank);                                                       // "NAME[RANK]" from here on
void report_error(const char *format, ...) __attribute__((format(printf, 1, 2)));     // "NAME: error: …"
void report_warning(const char *format, ...) __attribute__((format(printf, 1, 2)));   // "NAME: warning: …"
void report_cause(nnc_status cause, const char *format, ...) __attribute__((format(printf, 2, 3)));   // an error
// A file lacks a part of that name, "tensor" say; it has those of `names`, of which the most alike are told. detail:
// behind the name.
void report_absent(const char *path, const char *what, const char *name, const char *detail, int n_names,
                   const char *const *names);
bool report_line_opens(bool opens);   // progress has written a line that has no end yet; returns whether one was open
void report_clear_line(void);         // removes it before other output
// a bug of ours: exit 70
_Noreturn void report_internal(const char *format, ...) __attribute__((format(printf, 1, 2)));
void *xmalloc(size_t bytes);   // never NULL; running out of memory is an error message and exit 1
void *xcalloc(size_t n, size_t bytes);
void *xrealloc(void *p, size_t bytes);
char *xstrdup(const char *s);
char *xasprintf(const char *format, ...) __attribute__((format(printf, 1, 2)));   // Owned by the caller
const char *format_shape(int rank, const int64_t *dim, char *buf, size_t size);   // "[128, 1, 28, 28]"
const char *format_seconds(double seconds, char *buf, size_t size);               // "1:05", "2:03:07"
int64_t resident_peak_bytes(void);                                                // VmHWM; -1 if unknown

// ---------------------------------------------------------------------------------------------------------------------
// tensor.c: element types and layouts
int64_t dtype_bytes(NncDtype t);
const char *dtype_name(NncDtype t);   // "f32"
bool dtype_is_float(NncDtype t);
// Between bf16 or f16 and f32.
void narrow_to_float(NncDtype from, const void *src, float *dst, int64_t n);
void narrow_from_float(const float *src, NncDtype to, void *dst, int64_t n);
int64_t tensor_elements(const NncTensor *t);
int64_t tensor_arena_bytes(const NncTensor *t);   // of a persistent one: of this rank's part
int64_t tensor_span(const NncTensor *t);   // bytes from its first element in the arena to the end of its last row
// The t->bytes of its elements, row by row, whatever their pitch; of a part, to where that lies in the whole.
void tensor_from_arena(const NncTensor *t, const char *arena, void *logical);
double tensor_scalar(const NncTensor *t, const char *arena);   // the first element as a number
// Element i of an array of one type into element j of another; numbers keep their value (u8 255 becomes 255.0).
void convert_elements(NncDtype from, const void *src, NncDtype to, void *dst, int64_t n);
bool dtype_convertible(NncDtype from, NncDtype to);
// The values that t may hold, but for t->besides: [0, t->limit), where it has a limit, else what its type holds.
void tensor_bounds(const NncTensor *t, int64_t *low, int64_t *high);
// The same, and what it may be besides, in words.
const char *tensor_bounds_text(const NncTensor *t, char *text, size_t size);
// The first of n values, of a type convertible to t's, that is outside of the bounds of t: its index, and itself in
// *value. -1: none.
int64_t tensor_find_outside(const NncTensor *t, NncDtype from, const void *values, int64_t n, int64_t *value);
// The index of the first of n values that is a NaN or, unless nan_only, an infinity; -1: none.
int64_t find_not_finite(NncDtype dtype, const void *values, int64_t n, bool nan_only);

// ---------------------------------------------------------------------------------------------------------------------
// arena.c: the one mapping that holds every tensor. Where the device has memory of its own, the mapping is a mirror of
// the device's arena, of which only the parts that the commands read and write are ever touched: arguments, results,
// persistent values.
typedef struct Arena {
  char *base;
  int64_t bytes;   // planned
  int64_t mapped;
  void *mapping;         // Owned: munmap
  void *memory;          // Owned by the device: its own memory; NULL: steps work on the mapping itself
  int64_t far_bytes;     // planned, of the far arena
  struct FarFile *far;   // Owned; the far arena of a program for the host, and of what is without a device
  char *far_memory;      // Owned by the device: its far arena, in the host's memory; NULL: none
  int threads;           // of the host that compute, 0: none do
} Arena;
// Zeroed; on the host every page touched, by so many threads (0: OpenMP's maximum).
bool arena_create(Arena *a, int64_t bytes, int threads);
// A file for the far arena, if there is one; spare: bytes more. path NULL: where the compiler was told, else the folder
// that is current.
bool arena_open_far(Arena *a, int64_t bytes, int64_t spare, const char *path);
// Bytes of a persistent tensor in the arena, its mirror, or the far arena; what is written begins a block there.
bool arena_read(const Arena *a, int64_t address, void *to, int64_t bytes);
bool arena_write(const Arena *a, int64_t address, const void *from, int64_t bytes);
enum { ARENA_PIECE = 1 << 20 };   // bytes at once of what is far
void arena_destroy(Arena *a);
bool arena_push(const Arena *a, int64_t offset, int64_t bytes);   // mirror to device; nothing to do on the host
bool arena_pull(const Arena *a, int64_t offset, int64_t bytes);   // device to mirror
bool arena_push_persistent(const Arena *a);                       // after the persistent values were set in the mirror
bool arena_pull_persistent(const Arena *a);                       // before they are read there
bool arena_fill(Arena *a, int64_t from, int byte);   // on the host with a guard behind the end; for arena_high_water
// one past the last byte that differs from byte, on the host beyond the end too; -1 after reporting
int64_t arena_high_water(const Arena *a, int byte);
// The same of the far arena, where it is memory of a device, which knows its end.
void arena_fill_far(const Arena *a, int64_t from, int byte);
int64_t arena_far_high_water(const Arena *a, int byte);

// far.c: the file of a far arena. It has no name: nothing is left of it when the process has ended.
typedef struct FarFile FarFile;
// In a folder, or at a path where nothing is. Takes the room. NULL after reporting.
FarFile *far_open(const char *path, int64_t bytes);
void far_close(FarFile *f);   // f may be NULL
// One thread may read while one writes other bytes; what is written begins a block, and the rest of its last block is
// lost.
bool far_read(const FarFile *f, int64_t offset, void *to, int64_t bytes);
bool far_write(FarFile *f, int64_t offset, const void *from, int64_t bytes);
int64_t far_written_end(const FarFile *f);   // in whole blocks

// ---------------------------------------------------------------------------------------------------------------------
// What runs the steps: device_host.c, cuda/device.c. NULL members: nothing to do.
typedef struct DeviceOptions {
  int threads, device;   // threads 0: all; device: number of the GPU
  const char *far;       // path for the file of the far arena; NULL: not given
} DeviceOptions;
// Looks at each step before and once it has run, those inside of loops in each of their iterations.
typedef struct StepWatch {
  // offsets: where the step's buffers lie in the arena then; false: no more steps are run
  bool (*before)(struct StepWatch *w, const NncStep *s, const int64_t *offsets);
  bool (*after)(struct StepWatch *w, const NncStep *s, const int64_t *offsets);
  void *context;           // Borrowed
  const Arena *arena;      // set by executor_run_each
  bool over;               // one of them has returned false
  int depth;               // loops around the step
  int64_t iterations[8];   // theirs, the outermost loop's first; no more than there is room for
} StepWatch;
typedef struct NncDevice {
  const char *name;
  bool (*check)(const DeviceOptions *o, int *threads);   // this machine can run the program, with so many threads that
                                                         // compute, 0: none do
  bool (*open)(Arena *a, const DeviceOptions *o);        // memory of the device for a->bytes: sets a->memory
  void (*close)(Arena *a);
  bool (*enter)(const Arena *a);   // before steps of the arena are run: the calling thread gets ready
  bool (*join)(const Arena *a);    // what moves bytes between the devices of ranks, once all have opened theirs; NULL:
                                   // nothing
  bool (*push)(const Arena *a, int64_t offset, int64_t bytes);
  bool (*pull)(const Arena *a, int64_t offset, int64_t bytes);
  void *(*prepare)(const NncFunction *f, const Arena *a);   // what running f needs; NULL after reporting
  void (*release)(void *prepared);
  // The whole function but its taps; NULL: step by step. stage takes the arguments out of the mirror, also while
  // another run goes on; start, with what was staged or else the mirror's arguments, returns at once; finish waits and
  // leaves the results in the mirror.
  bool (*stage)(void *prepared);
  bool (*start)(void *prepared);
  bool (*finish)(void *prepared);
  bool (*run_step)(void *prepared, int step);                     // one step, to its end
  bool (*watch_step)(void *prepared, int step, StepWatch *w);     // the same, inside of loops step by step
  const char *(*implementation)(const NncStep *s);                // of a library step; static string
  bool (*time_step)(void *prepared, int step, double *seconds);   // run_step with the device's own clock
  // bytes of the device's memory that went since its context was made; -1 after reporting
  int64_t (*taken)(const Arena *arena);
  void (*describe)(char *text, size_t size);   // "8 threads, avx512_core", for bench
} NncDevice;

// ---------------------------------------------------------------------------------------------------------------------
// philox.c: counter-based random numbers (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011)
void philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);   // 10 rounds
uint64_t philox_u64(uint64_t seed, uint64_t stream, uint64_t index);
double philox_uniform(uint64_t seed, uint64_t stream, uint64_t index);   // [0, 1), 53 bits
double philox_normal(uint64_t seed, uint64_t stream, uint64_t index);    // Box-Muller
uint64_t philox_stream(const char *name);                                // FNV-1a of the name: an independent sequence
// perm[0..n): a permutation that depends on seed and stream only (Fisher-Yates).
void philox_permutation(uint64_t seed, uint64_t stream, uint32_t *perm, int64_t n);

// ---------------------------------------------------------------------------------------------------------------------
// program.c: looking up things in the tables, and checking them
const NncFunction *program_function(const char *name);      // NULL if absent
bool program_predicts(const NncFunction *f);                // "predict" or "predict.<model>"
const NncFunction *program_prediction(const char *model);   // NULL: of the main model. NULL if absent
bool program_is_persistent_role(NncRole role);
int64_t step_scratch_bytes(const NncStep *s);   // of a library op's record; -1: the step is none
const char *lane_name(NncLane lane);            // "compute"
// The bytes that the steps, arguments and results of f touch: the largest offset + size, in whole units of NNC_ALIGN.
// -1 if sizes are not recorded.
int64_t function_used_bytes(const NncFunction *f);
int64_t function_far_used_bytes(const NncFunction *f);   // the same of the far arena, in whole blocks
// Every buffer lies inside its function's arena, and what is used is what was planned.
bool program_verify(void);

// ---------------------------------------------------------------------------------------------------------------------
// lanes.c: steps that run beside each other, in threads
typedef struct Lanes Lanes;
typedef bool (*RunStepFn)(void *context, int step);   // of any lane, in a thread of that lane
bool lanes_wanted(const NncFunction *f);              // some step of f is beside the lane compute
// Makes the threads of all lanes but compute. NULL after reporting: there are none to be had.
Lanes *lanes_create(const NncFunction *f, RunStepFn run, void *context);
// All steps but taps, once, to their end, those of compute in the calling thread. false: run has failed; nothing that
// waits for what failed has run, and no thread runs any more. May be called again.
bool lanes_run(Lanes *l);
void lanes_destroy(Lanes *l);

// ---------------------------------------------------------------------------------------------------------------------
// execute.c: the step loop
typedef struct Executor Executor;
typedef void (*TapFn)(void *context, const NncTensor *tensor, const char *arena);
// makes the library operations; NULL after reporting
Executor *executor_create(const NncFunction *f, const Arena *arena);
void executor_destroy(Executor *e);
const NncFunction *executor_function(const Executor *e);
// tap may be NULL; not seen by it: taps that are parts of results
bool executor_run(Executor *e, TapFn tap, void *context);
// Step by step, without taps and results, until the watch is over.
bool executor_run_each(Executor *e, StepWatch *w);
// the bytes of a result after a run; borrowed, until the next one
const char *executor_result(const Executor *e, const NncTensor *t);
// The same in halves: start may return before the run has ended, finish waits. Between them the arguments of the next
// run, of this or another executor, may be written to the arena and staged, where executor_can_stage: its start then
// takes those. One run at a time.
bool executor_can_stage(const Executor *e);
bool executor_stage(Executor *e);
bool executor_start(Executor *e);
bool executor_finish(Executor *e);
void executor_profile(Executor *e, bool on);
double executor_step_seconds(const Executor *e, int step, int64_t *runs);   // total over the runs profiled
// of the quickest run: what is left when other programs disturb
double executor_step_least(const Executor *e, int step);
void executor_keep_samples(Executor *e, int64_t runs);   // the next runs that are profiled, step by step
// seconds of each run; Borrowed. The number of them
int64_t executor_samples(const Executor *e, int step, const float **samples);
const char *executor_step_implementation(const Executor *e, int step);   // of library steps, else ""

// ---------------------------------------------------------------------------------------------------------------------
// costs.c: measured times of kernels and library operations, for nnc --costs
// Writes the median time of each distinct piece of work in the steps of n executors, profiled with
// executor_keep_samples; the file is renamed into place when complete. Format: docs/targets.md.
bool costs_write(const char *path, int n, Executor *const *executors);

// ---------------------------------------------------------------------------------------------------------------------
// init.c: parameters and state at the start
bool init_persistent(const Arena *arena, uint64_t seed);
bool init_tensor(const NncTensor *t, const Arena *arena, uint64_t seed);
// The parameter whose lengths along *axis a tensor begins as (of weight_norm); NULL for all others. Borrowed.
const NncTensor *init_lengths_of(const NncTensor *t, int *axis);
// The n elements of an input from `first` on, as its initialiser says, else from a standard normal distribution.
bool init_input(const NncTensor *t, uint64_t seed, int64_t first, int64_t n, char *out);

// ---------------------------------------------------------------------------------------------------------------------
// phases.c: what a step consists of, one after the other
int program_phases(void);                       // at least 1
NncPhase program_phase(int i);                  // of a program without phases: all of the step, named ""
const NncFunction *program_train(int i);        // NULL: none
const NncFunction *program_accumulate(int i);   // NULL: none
int program_phase_of(const NncFunction *f);     // of one of them
bool phase_is_due(int i, int64_t step);         // in the step behind so many

// ---------------------------------------------------------------------------------------------------------------------
// schedule.c
// Of a phase's first group, in the next of its steps; step: steps of the training done before, of so many.
double schedule_rate(int phase, int64_t step, int64_t total);
// False after reporting: a rate of that step is below 0 or not finite.
bool schedule_check(int phase, int64_t step, int64_t total);
// hyper: n numbers, 3 per group, then perhaps a micro-batch's share of the step,
// and whether this rank is the last. Only those of the phase's groups mean something.
void schedule_fill(double *hyper, int64_t n, int phase, int64_t step, int64_t total);
// Group 0 has this learning rate instead, and the others keep their ratio to it.
void schedule_set_rate(double *hyper, double rate);

// ---------------------------------------------------------------------------------------------------------------------
// safetensors.c: files of named tensors
typedef struct SafetensorsEntry {
  char *name;      // Owned
  char dtype[8];   // "F32", "F64", "I32", "I64", "U8", "BOOL", …
  int rank;
  int64_t dim[NNC_MAX_RANK];
  int64_t offset, bytes;   // of the data in the file
} SafetensorsEntry;
typedef struct Safetensors {
  char *path;   // Owned
  int fd;
  int n_entries;
  SafetensorsEntry *entries;   // Owned; in the header's order
  SafetensorsEntry **sorted;   // Owned; by name
  bool has_sums;               // checksums, which are right
  int n_metadata;
  char **keys, **values;   // Owned
} Safetensors;
// The keys of the metadata that hold the checksums: their kind, and of that key's name, with blanks between them, the
// header's and then those of the tensors, in the header's order.
#define SAFETENSORS_SUM_KIND "checksum"
#define SAFETENSORS_SUMS "xxh3"
// Reads the header and, where the file has checksums, all of it once.
bool safetensors_open(const char *path, Safetensors *out);
void safetensors_close(Safetensors *s);
const SafetensorsEntry *safetensors_find(const Safetensors *s, const char *name);
// And the names that there are, the most alike first; `detail` stands behind the name.
void safetensors_report_missing(const Safetensors *s, const char *name, const char *detail);
const char *safetensors_metadata(const Safetensors *s, const char *key);   // NULL if absent
bool safetensors_read(const Safetensors *s, const SafetensorsEntry *e, int64_t from, int64_t bytes, void *out);
bool safetensors_dtype(const char *name, NncDtype *out);

// Writing, to the file that a symbolic link leads to: declare all tensors, begin (reserves the room), put parts, of
// each tensor from its start to its end, commit (header with checksums, sync and rename). Until commit succeeds the
// file at path is untouched; abandon removes what was written.
typedef struct SafetensorsWriter SafetensorsWriter;
SafetensorsWriter *safetensors_create(const char *path);   // never NULL
void safetensors_add_metadata(SafetensorsWriter *w, const char *key, const char *value);
// its index
int safetensors_declare(SafetensorsWriter *w, const char *name, NncDtype dtype, int rank, const int64_t *dim);
bool safetensors_begin(SafetensorsWriter *w);
bool safetensors_put(SafetensorsWriter *w, int index, int64_t from, const void *data, int64_t bytes);
bool safetensors_commit(SafetensorsWriter *w);    // frees w in every case
void safetensors_abandon(SafetensorsWriter *w);   // frees w
// before the first file is written, of a process whose signal handler calls unlink_pending
void safetensors_keep_pending(void);
// async-signal-safe: removes a temporary file that is being written
void safetensors_unlink_pending(void);
// its folder exists and can be written, and it is new or a regular file
bool output_path_check(const char *path);
// False, reported: what would be written is another file of this run, or the program itself. NULL: there is none.
bool output_spares(const char *path, const char *other);

// ---------------------------------------------------------------------------------------------------------------------
// checkpoint.c: persistent values to and from files
typedef struct TrainState {
  int64_t step;   // optimizer steps done
  int64_t seed;
  double best;             // with patience: least loss of an evaluation so far
  int64_t since_best;      // evaluations after that one
  int64_t total;           // steps of the whole run, on which the schedule depends; 0: not told
  int64_t per_epoch;       // steps; 0: not told
  int64_t records;         // of the training data; 0: not told
  int64_t threads;         // with which the run began; 0: not the host's
  int64_t micro_batches;   // of a step, on all ranks; 0: not told
  int64_t eval_due;        // 1: the evaluation after this step was interrupted
} TrainState;
// The first persistent value, of parameters and states only or of all, that holds a NaN or an infinity; NULL: none.
// False after reporting that they cannot be read.
bool checkpoint_not_finite(const Arena *arena, bool weights_only, const NncTensor **found);
// False after reporting that a file at the path, which the user did not name with `option`, is another program's, of
// another source file; with spare_own also that it is a training's of this one.
bool checkpoint_may_replace(const char *path, bool spare_own, const char *option);
// Values that are not finite are written only with broken, for a file that shows what went wrong.
bool checkpoint_save(const char *path, const Arena *arena, const TrainState *state, bool broken);
// Of the state: what the file says, 0 for the last three where it does not.
bool checkpoint_resume(const char *path, const Arena *arena, TrainState *state);
void weights_add_metadata(SafetensorsWriter *w);           // of files of this model
bool weights_save(const char *path, const Arena *arena);   // parameters and states only; all must be finite
// parameters and states; all must be there with the right shape
bool weights_load(const char *path, const Arena *arena);
// The file given, NULL: the last checkpoint, which a program without parameters and states does not need.
bool weights_load_given(const char *given, const Arena *arena);
char *checkpoint_default_path(void);   // "<model>.safetensors"; Owned by the caller

// checkpoint_files.c: what a training owns beside its checkpoint
typedef struct CheckpointLock {
  int fd;
  char *path;   // Owned; NULL: not locked
  bool stays;   // it was there, empty
} CheckpointLock;
char *checkpoint_lock_path(const char *path);   // the file that is there meanwhile; Owned by the caller
// Until it is unlocked, or the process ends, no other process locks this path. False after reporting whose it is, also
// where it lies beside another checkpoint that is locked.
bool checkpoint_lock(const char *path, CheckpointLock *lock);
void checkpoint_unlock(CheckpointLock *lock);
// False after reporting that it is the checkpoint of a training which is running.
bool checkpoint_unused(const char *path);
// False after reporting that a training which is running writes it, or may beside its checkpoint.
bool checkpoint_spared(const char *path);
// The same for a file that is appended to, until it is closed; what is no regular file several may write.
bool file_hold(int fd, const char *path, const char *option);
// "model.safetensors" and ".best" give "model.best.safetensors". Owned by the caller.
char *path_beside(const char *path, const char *what);
// Copies of a checkpoint as it was after earlier steps, "model.step100.safetensors": links to it.
typedef struct KeptCheckpoints {
  int n;
  int64_t *steps;   // Owned; rising
} KeptCheckpoints;
// The file of which they are second names, and beside which they are, as the functions below want it: where a symbolic
// link leads, perhaps to another file system, else `path` itself. Owned by the caller.
char *kept_beside(const char *path);
char *kept_path(const char *path, int64_t step);   // Owned by the caller
// The step of which a file of that name, without a folder, is the copy; -1: it is none.
int64_t kept_step(const char *path, const char *name);
// Those that are there, up to step `last`; with is_last also the one at path, which is of that step.
void kept_find(KeptCheckpoints *k, const char *path, int64_t last, bool is_last);
// The one at path; the oldest go until there are `most`.
bool kept_add(KeptCheckpoints *k, const char *path, int64_t step, int64_t most);

// ---------------------------------------------------------------------------------------------------------------------
// weight_map.c: weight files whose tensors have other names and layouts; format: docs/runtime.md, section import
typedef struct WeightMap WeightMap;
WeightMap *weight_map_read(const char *path);   // NULL after reporting file and line
void weight_map_free(WeightMap *m);             // m may be NULL
// Parameters and states from the file, or as their initialisers and `seed` say where the map says `new`; m NULL: names
// are the same. All is checked before the arena is touched; every differing tensor is reported.
bool weight_map_import(const char *path, const WeightMap *m, uint64_t seed, const Arena *arena);
// The other way round. floats: the type of floats in the file, NULL: as they are; a number that it cannot hold is an
// error.
bool weight_map_export(const char *path, const WeightMap *m, const NncDtype *floats, const Arena *arena);

// ---------------------------------------------------------------------------------------------------------------------
// data.c and data_*.c: records in memory
typedef struct DataStore {   // of a reader with a library of its own: what it keeps open of one file
  void (*close)(struct DataStore *s);
  int64_t bytes;   // of memory that it takes while it reads
} DataStore;
typedef struct DataPiece {   // what one file gives to a column
  char *path;                // Owned
  int64_t at, bytes;         // its part of the column's records, one after the other
  int64_t first_byte;        // where that part begins in the uncompressed file; -1: it is not in one place
  int fd;                    // Owned; of records that stay in the file; else -1
  DataStore *store;          // Owned; NULL: there is none
} DataPiece;
typedef struct Column {   // the values of one input over all records
  char *path;             // Owned
  NncDtype dtype;
  int rank;   // of one record
  int64_t dim[NNC_MAX_RANK];
  int64_t records;
  bool whole;   // one record, which every batch gets
  double flip;
  int64_t crop;           // how its images are moved: chance to be mirrored, pixels of border; 0: not
  int64_t record_bytes;   // distance between records; with bytes records overlap by the shifted targets
  int64_t first_record;   // the number of record 0 in its files
  int64_t first_byte;     // while one file is read: where record 0 lies in it, uncompressed
  DataStore *store;       // while one file is read: becomes its piece's
  int64_t start;          // where record 0 lies in the pieces' parts
  int n_pieces;
  DataPiece *pieces;   // Owned unless it borrows; in order
  char *values;        // Borrowed from block; NULL where there is `fetch`
  void *block;         // Owned unless it borrows
  bool borrows;        // another column owns what this one reads
  // Records that stay in their files: one of them, as values of `dtype`. room: room_bytes of the calling thread.
  // Reports; errno: not 0 where the system could not read the file.
  bool (*fetch)(const struct Column *c, int64_t record, void *room, char *to);
  int64_t room_bytes;
  int64_t block_bytes;
} Column;
typedef struct DataSource {   // how to open one file of a reader
  const char *path;
  const char *field;   // safetensors, npz, hdf5: tensor name; tokens: NULL for the only one
  int64_t begin_permille, end_permille;
  NncDtype dtype;           // tokens: of raw numbers
  bool in_place;            // the records stay in the file: what it says of them is read and checked, block is NULL
  bool whole;               // safetensors: the tensor is one record
  const NncTensor *input;   // that the file feeds; NULL: none
  const Column *line;       // the first column of the line, which has been read; NULL: this is it
  // csv: names of the columns that make up a record; numbers of the categories, 0: these are numbers; between cells
  int n_columns;
  const char *const *columns;
  int64_t hash;
  char separator;
} DataSource;
bool data_read_idx(const DataSource *s, Column *out);
bool data_read_npy(const DataSource *s, Column *out);
bool data_read_npz(const DataSource *s, Column *out);
bool data_read_safetensors(const DataSource *s, Column *out);
bool data_read_csv(const DataSource *s, Column *out);
// Columns of single tokens.
bool data_read_bytes(const DataSource *s, Column *tokens);
bool data_read_tokens(const DataSource *s, Column *tokens);
// A column of single tokens becomes records of `sequence` of them and the targets one token further, which share its
// memory; targets NULL: none wanted.
bool data_cut_text(int64_t sequence, Column *tokens, Column *targets);
// data_find.c: the files of a pattern (*, ?, […]) or the one of a name, in the folder or else the default places, in
// the order of their bytes; added to the list. False: there is none; reports nothing.
typedef struct DataPaths {
  int n;
  char **paths;   // Owned
} DataPaths;
bool data_find(const char *pattern, const char *folder, DataPaths *out);
void data_report_missing(const char *pattern, const char *folder);
void data_paths_free(DataPaths *p);
// data_join.c: the columns of a line; one for each of its names. function: whose inputs they feed.
bool data_read_line(const NncData *line, const NncFunction *function, const char *folder, Column *columns);
typedef struct DataReader {
  const char *name;
  // a column of one file; false after reporting: path and block may be set
  bool (*read)(const DataSource *s, Column *c);
  bool text;    // its records and their targets are cut from all files together
  bool named;   // one file has what feeds all names of a line
} DataReader;
bool data_read_with(const DataReader *reader, const NncData *line, const NncFunction *function, const char *folder,
                    Column *columns);
// The file's part that record r is in, and where it begins there.
const DataPiece *data_piece(const Column *c, int64_t r, int64_t *in_piece);
// The file of a byte of record r, and where it lies there; -1: not known.
const char *data_place(const Column *c, int64_t r, int64_t byte, int64_t *in_file);
void data_one_piece(Column *c);   // all of it comes from c->path, from no place in it that could be told
void data_column_free(Column *c);
// data_csr.c: row starts, one more than rows, from a tensor of a file; the row of each edge into rows, as many as the
// input has.
bool csr_read(const Safetensors *s, const SafetensorsEntry *e, const NncTensor *input, int32_t *rows);
// A descriptor for reading; -1 after reporting, also for a folder, and for a pipe that nobody writes to.
int open_to_read(const char *path);
// data_zip.c: the array `field`, the member field.npy, of a zip archive (npz), read from its front to its end. NULL
// after reporting.
typedef struct ZipMember ZipMember;
ZipMember *zip_open(const char *path, const char *field);
const char *zip_name(const ZipMember *m);       // of file and member, for messages
int64_t zip_packed_bytes(const ZipMember *m);   // as it lies in the file
int64_t zip_stored_at(const ZipMember *m);      // where it lies there; -1: it is deflated
bool zip_at_end(const ZipMember *m);            // all was read
// The next bytes, fewer only at the end, where its CRC-32 is compared; at most 2^30. -1 after reporting.
int64_t zip_read(ZipMember *m, void *out, int64_t bytes);
void zip_close(ZipMember *m);   // may be NULL
// Buffered reading of a plain or gzip file, or of an array of an archive; used by the readers.
typedef struct DataFile DataFile;
DataFile *data_file_open(const char *path);                             // NULL after reporting
DataFile *data_file_open_member(const char *path, const char *field);   // NULL after reporting
const char *data_file_name(const DataFile *f);                          // for messages
int64_t data_file_place(const DataFile *f);   // where the next byte lies, uncompressed; -1: in no place of the file
bool data_file_read(DataFile *f, void *out, int64_t bytes, const char *what);   // exactly bytes, or reports truncation
int64_t data_file_read_some(DataFile *f, void *out, int64_t bytes);   // at most bytes; 0 at the end, -1 after reporting
char *data_file_read_whole(const char *path, int64_t *bytes);         // Owned by the caller; NULL after reporting
bool data_file_ends(DataFile *f, int64_t records, int64_t record_bytes);   // reports what follows the records
// After the header, which has set the column's records, record_bytes and first_byte for the whole file: takes the part
// that the source asks for into memory of the column's own and reads past the rest. False after reporting.
bool data_file_read_records(DataFile *f, const DataSource *s, Column *c);
void data_file_close(DataFile *f);
// Whether it is a regular file that is not packed, so that a part of it can be read; *bytes: of it. False after
// reporting.
bool data_file_is_plain(const char *path, int64_t *bytes);
// Of a file of raw numbers behind `first` bytes: what of it is read one by one. c has path, dtype and record_bytes.
bool data_raw_in_place(const DataSource *s, int64_t first, Column *c);
void data_take(Column *c, int64_t from, int64_t records);   // leaves so many of the block, from that byte on
void data_range(const DataSource *s, int64_t n, int64_t *begin, int64_t *end);

// augment.c: between the file and the arena
// mirrored, then cut out of a border of pad pixels at (top, left)
typedef struct ImageMove {
  bool mirror;
  int64_t pad, top, left;
} ImageMove;
// The move of one record in one epoch: inputs of a record that are moved at all are moved alike.
ImageMove augment_draw(const Column *c, uint64_t seed, uint64_t epoch, int64_t record);
// src, dst: (planes, height, width) of elements of so many bytes, not overlapping; what comes from outside of the image
// is 0.
void augment_move(ImageMove move, int64_t planes, int64_t height, int64_t width, int64_t element, const char *src,
                  char *dst);
// n values of one record into the input's type, normalised where the input says so. to: at the record in the arena.
void stage_record(const NncTensor *input, NncDtype from, const void *values, char *to, int64_t n);

typedef struct Dataset {
  const char *split;
  int n_columns;
  Column *columns;      // Owned; in the order of names
  const char **names;   // Owned array of borrowed input names
  int64_t records;
  int64_t bytes;          // held in memory, the shuffling order included
  uint32_t *members;      // Owned; the records of the columns that belong to the data set, ascending; NULL: all
  uint32_t *order;        // Owned; of the members; NULL: as they come
  bool continued;         // row i of each batch goes through its own part of the records, in order
  uint64_t seed, epoch;   // of the shuffle, and so of the images' moves
  bool shuffled;          // the training's
  char *moved;            // Owned: the image that is being moved; NULL: none is
  struct Ahead *ahead;    // Owned; reads what stays in files; NULL: all is in memory
} Dataset;
// Loads what the function's inputs need of a split ("train", "eval"); of "train" without the records that are kept for
// validation. folder NULL: the default places.
bool dataset_load(const char *split, const NncFunction *f, const char *folder, Dataset *out);
// The records that loading `train` left out, for evaluation: chosen by the program's seed, of a continued text its end.
// Borrows train's columns.
bool dataset_validation(const Dataset *train, const NncFunction *f, Dataset *out);
bool dataset_has_split(const char *split);
bool dataset_files_exist(const char *split, const char *folder);   // reports nothing
bool dataset_spared(const char *folder, const char *path);         // output_spares, for every data file
void dataset_free(Dataset *d);
void dataset_shuffle(Dataset *d, uint64_t seed, uint64_t epoch);
// Writes records [first, first + batch) of the order to the function's inputs; beyond the end repeats record `fill`.
// After a shuffle images are moved.
// False after reporting, where something stays in files.
bool dataset_fill(const Dataset *d, const NncFunction *f, int64_t first, int64_t fill, char *arena);
// What the caller's batches are: batch k of an epoch begins at record offset + k stride. Before: all, one after the
// other.
void dataset_sequence(Dataset *d, int64_t offset, int64_t stride, int64_t per_epoch);
// The image of a record as the epoch has it, in `to`.
const char *dataset_move(const Column *c, const NncTensor *input, uint64_t seed, uint64_t epoch, int64_t record,
                         const char *values, char *to);
// Class labels, and indices of a table's rows: out of range they would select nothing.
bool column_check_limit(const Column *c, const NncTensor *input, int64_t record, const char *values);

// data_ahead.c: threads that read the records that stay in files, into a ring of batches. For data.c alone.
typedef struct Ahead Ahead;
typedef struct DataWait {
  int64_t bytes;            // of the ring and the threads' rooms
  int n_batches, threads;   // of the ring; that read
  int64_t batches, waits;   // taken; that were not there yet
  double seconds;           // that the steps waited for them
} DataWait;
// NULL after reporting.
Ahead *ahead_create(Dataset *d, const NncFunction *f, int n_threads, int n_batches, bool skip_broken);
void ahead_sequence(Ahead *a, int64_t offset, int64_t stride, int64_t per_epoch);
bool ahead_fill(Ahead *a, const NncFunction *f, int64_t first, int64_t fill, char *arena);   // as dataset_fill
DataWait ahead_wait(const Ahead *a);
void ahead_destroy(Ahead *a);   // may be NULL

// The input of that name; NULL: there is none.
const NncTensor *function_input(const NncFunction *f, const char *name);
// records per call: the first dimension of its inputs that are not whole; 1 when all are
int64_t function_batch(const NncFunction *f);
// rows of its outputs per call: records, or what a function of whole inputs has, such as the nodes of a graph
int64_t function_rows(const NncFunction *f);
bool function_has_inputs(const NncFunction *f);
bool function_is_whole(const NncFunction *f);   // it has inputs, and all are whole

// inputs.c: inputs from elsewhere
// A warning where the file's f64 becomes a narrower float of the program.
void warn_of_rounding(const char *path, NncDtype dtype, const NncTensor *input);
typedef struct InputSource {
  const Safetensors *file;    // Borrowed; NULL: none
  int64_t drawn;              // so many records of the floats that the file does not have are drawn; 0: none are
  uint64_t seed;              // of these
  const NncTensor *written;   // an input that the caller writes; NULL: none
  bool alike;                 // the same record in all rows
} InputSource;
// The tensor of an input, by its name, or else by that of its field, so that the file that the program was trained on
// can be given as it is. s NULL, or none there: NULL.
const SafetensorsEntry *inputs_find(const Safetensors *s, const NncTensor *input);
// Every other input of f has a tensor in the file with the right type and shape but for the number of records, which
// all share.
bool inputs_check(const InputSource *in, const NncFunction *f, int64_t *records);
// beyond the end the last record repeats
bool inputs_read(const InputSource *in, const NncFunction *f, int64_t first, char *arena);
void inputs_make(const NncFunction *f, uint64_t seed, char *arena);   // made-up values

#endif
