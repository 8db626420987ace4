// What the commands of a program are made of, above runtime.h: sessions, the steps of a training, what is told of them.
#ifndef NNC_RUNTIME_TRAINING_H
#define NNC_RUNTIME_TRAINING_H

#include "runtime/runtime.h"

// ---------------------------------------------------------------------------------------------------------------------
// session.c: what train, eval, step and bench share
typedef struct Session {
  Arena arena;
  Executor *train[NNC_MAX_PHASES], *accumulate[NNC_MAX_PHASES], *eval, *decode;   // NULL where not asked for or absent
  int n_predictions;
  Executor **predict;   // Owned: (n_predictions), those that are asked for
  uint64_t seed;
  uint64_t seed_aside;   // of what evaluation and prediction draw: the program's own, so that runs are compared
  int64_t total_steps;   // of the schedule
  double rate;           // of the first parameter group, instead of the schedule's; NaN: as that says
} Session;
// SPARE: the far arena's file has room for a copy of the persistent part behind it
enum { SESSION_TRAIN = 1, SESSION_EVAL = 2, SESSION_PREDICT = 4, SESSION_SPARE = 8, SESSION_DECODE = 16 };
// prediction: the one that PREDICT asks for; NULL: all models'
bool session_open(Session *s, int functions, const NncFunction *prediction, const DeviceOptions *device);
// With several ranks, after session_open of all: what moves bytes between their devices. False after reporting.
bool session_join(const Session *s);
void session_close(Session *s);
// Writes rng and hyper arguments of f; draw counts micro-batches, step optimizer steps.
void session_write_arguments(const Session *s, const NncFunction *f, int64_t step, int64_t draw);
// The same for evaluation and prediction: what they draw depends on seed_aside and the number of the batch.
void session_write_aside(const Session *s, const NncFunction *f, int64_t batch);
bool function_draws(const NncFunction *f);   // has an rng argument
// Carried states become what they are where a text begins. With saved: keeps them there (NULL: nothing was carried),
// for session_restore_carried; where it fails they are as before, and nothing is kept.
bool session_begin_text(const Session *s, char **saved);   // saved may be NULL; *saved Owned by the caller
// a copy, NULL: nothing is carried. Owned: session_restore_carried
bool session_save_carried(const Session *s, char **saved);
bool session_restore_carried(const Session *s, char *saved);   // frees saved
bool session_clear_caches(const Session *s);                   // of decode, before the first token of a text
// Losses and metrics of one call or an average over several.
typedef struct Metrics {
  int n;
  const char **names;
  double *values;
  double *weights;   // of what was added; 0: the value is not known, as of a phase that was not run
  bool *is_loss;
} Metrics;
void metrics_init(Metrics *m, const NncFunction *f);
void metrics_init_train(Metrics *m);   // those of all phases
void metrics_free(Metrics *m);
void metrics_read(Metrics *m, const NncFunction *f, const char *arena, double weight);   // m += weight * results
void metrics_add(Metrics *m, const Metrics *other, double weight);
void metrics_reset(Metrics *m);          // to zero; a NaN does not stay
double metrics_loss(const Metrics *m);   // the sum of the losses that are known
bool metrics_losses_finite(const Metrics *m);
// Mean over every record of the data set; see docs/runtime.md for the last, incomplete batch. Carried states go through
// a continued text and are as before afterwards.
bool session_evaluate(Session *s, const Dataset *d, Metrics *out);

// ---------------------------------------------------------------------------------------------------------------------
// trainer.c: steps of a training
typedef struct Trainer {
  Session *session;   // Borrowed, with its function train
  Dataset *data;      // Borrowed; NULL: batches come from elsewhere
  TrainState state;
  int64_t records_per_step, steps_per_epoch, total;   // of one rank's data all; without data an epoch is a step
  int64_t end;              // steps until it stops, perhaps before `total`: no batch of a later one is made
  bool one_record;          // all inputs are whole: every step is an epoch, whose end means nothing
  int64_t shuffled_epoch;   // -1: not yet
  bool stages;              // the next batch is made while a device works on this one
  bool staged;              // it is on its way there
  bool stage_failed;        // or could not be made, as was reported: the next step fails
  Metrics metrics;          // of the last step
  double *shares;           // Owned; the metrics of each micro-batch, on all ranks
  bool stop;                // with several ranks: one was asked to end
  TapFn tap;                // of the next step's last micro-batch; NULL: none. Not where a batch is staged
  void *tap_context;
} Trainer;
// After session_open; steps, epochs 0: as the program says. Sets the session's schedule. False after reporting.
bool trainer_open(Trainer *t, Session *s, Dataset *data, int64_t steps, double epochs);
void trainer_close(Trainer *t);
void trainer_set_total(Trainer *t, int64_t total);   // steps of the whole run, which ends there
int64_t trainer_micro_batches(void);                 // of a step, one after the other, of this rank
// The batch and the other arguments of a micro-batch, for what is returned. Borrowed.
Executor *trainer_write_batch(Trainer *t, int64_t step, int phase, int64_t micro);
bool trainer_step(Trainer *t);   // the next one on the data: sets metrics, counts the step
// The next one on batches from elsewhere.
typedef struct Batches {
  bool (*write)(void *context, const NncFunction *f, int64_t micro);   // the inputs of f
  TapFn tap;                                                           // NULL: none
  void *context;                                                       // of both
} Batches;
bool trainer_step_on(Trainer *t, const Batches *batches);

// ---------------------------------------------------------------------------------------------------------------------
// progress.c, log.c and tensorboard.c
typedef struct Progress {
  bool is_terminal, is_quiet;
  double start, last;                       // seconds
  int64_t first_step, total_steps, every;   // every: steps between plain lines
  Metrics sum;                              // since the last line
  double weight;                            // steps
} Progress;
void progress_start(Progress *p, int64_t step, int64_t total, int64_t every, bool quiet);
void progress_step(Progress *p, int64_t step, double epoch, double epochs, const Metrics *m, double items_per_step,
                   bool must_print);
void progress_exclude(Progress *p, double seconds);   // evaluation and saving do not count as time of steps
void progress_end(Progress *p);

// JSON lines; file NULL: none; error: errno of the first write that failed
typedef struct Log {
  FILE *file;
  int error;
} Log;
// resumed >= 0: appends, without the records of later steps that are there, which come again.
bool log_open(Log *log, const char *path, int64_t resumed);
// What `eval --json` tells: no step, since the weights may be anybody's.
void log_evaluation(FILE *out, const Metrics *m, int64_t records);
// rates: of each phase, below 0: none; NULL: of none
void log_record(Log *log, const char *kind, int64_t step, double epoch, const Metrics *m, const double *rates,
                double seconds);
bool log_close(Log *log);

// tensorboard.c: event files; file NULL: none; error: errno of the first write that failed
typedef struct Events {
  FILE *file;
  int error;
} Events;
// events.out.tfevents.<model> in a folder, which is made; folder NULL: none. resumed as in log_open. False after
// reporting, also for a file there that is something else.
bool events_open(Events *e, const char *folder, int64_t resumed);
// "<kind>/loss" and so on; rates as of log_record; seconds of the step below 0: none.
void events_scalars(Events *e, const char *kind, int64_t step, const Metrics *m, const double *rates, double seconds);
// The finite ones of a tensor's values, in their logical order, as "<kind>/<name>".
void events_histogram(Events *e, const char *kind, const char *name, int64_t step, const NncTensor *t,
                      const void *values);
bool events_close(Events *e);

// find_nan.c: runs one call step by step, its arguments and the persistent values being in the arena, and looks for the
// first NaN; where there is none, for the first infinity.
typedef struct NanSearch {
  int64_t step;     // for messages, from 1
  bool found;       // a NaN, which was reported
  char *infinity;   // Owned; the message about the first infinity; NULL: none yet
} NanSearch;
bool find_nan(NanSearch *search, Executor *e, const Arena *arena);   // false: the device failed

// signals.c: SIGINT, SIGTERM and SIGHUP ask for the end after the step; the second ends at once
void signals_install(void);
bool signals_stop_requested(void);

// ---------------------------------------------------------------------------------------------------------------------
// cmd_*.c: the commands; argv[0] is the command's name. Return the exit status.
int cmd_train(int argc, char **argv);
int cmd_eval(int argc, char **argv);
int cmd_predict(int argc, char **argv);
int cmd_step(int argc, char **argv);
int cmd_bench(int argc, char **argv);
int cmd_info(int argc, char **argv);
int cmd_import(int argc, char **argv);
int cmd_export(int argc, char **argv);
int cmd_gradcheck(int argc, char **argv);
// labels.c: names of classes or tokens
typedef struct Labels {
  int n;
  char **names;
} Labels;   // Owned
// path NULL: the program's own, perhaps none; else a name on each line, with \n \t \\ for characters
bool labels_open(Labels *l, const char *path);
void labels_close(Labels *l);
bool labels_check(const Labels *l, int64_t classes);               // there are none or as many; reports
void softmax_in_place(double *p, int64_t n, double temperature);   // in place
// in the order of falling values, after `last` (-1: the first); -1: none
int64_t next_likeliest(const double *p, int64_t n, int64_t last);
// "3: 7 sneaker 0.9312, 5 sandal 0.0500": the `count` likeliest classes; scores become probabilities.
void print_classes(const Labels *l, int64_t record, double *scores, int64_t classes, int64_t count);

// draw.c: one of n tokens
typedef struct DrawOptions {
  double temperature;   // 0: the likeliest
  int64_t top_k;        // of so many likeliest, 0: all
  double top_p;         // of the likeliest of these whose probabilities add up to that, the last one among them; 1: all
} DrawOptions;
// With a draw from [0, 1); scores become probabilities of which those left out are 0. -1: they are no finite numbers.
int64_t draw_token(double *scores, int64_t n, const DrawOptions *o, double uniform);

// sample.c
typedef struct SampleOptions {
  const char *weights, *labels, *prompt;   // NULL: the default
  const char *inputs;                      // of a model that reads more than the text; NULL: none
  const char *end;                         // the token that ends a text; NULL: none
  int64_t count, top_k;                    // tokens to draw; of how many likeliest, 0: all
  double top_p;                            // of the likeliest whose probabilities add up to that, 1: all
  double temperature;                      // 0: always the likeliest
  double length_penalty;                   // of beams
  int64_t beams;                           // of a search for the likeliest text instead of draws; 0: draws
  bool recompute;                          // the whole context for each token, also where there are caches
  uint64_t seed;
  DeviceOptions device;
} SampleOptions;
bool sample_text(const SampleOptions *o);   // the prompt and `count` tokens to stdout

#endif
