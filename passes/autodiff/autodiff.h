// Private to the pass autodiff: gradients (autodiff.c), the growing signature of the step (autodiff_signature.c) and
// what is done with the gradients (optimizer.c).
#ifndef NNC_PASSES_AUTODIFF_H
#define NNC_PASSES_AUTODIFF_H

#include "ir/ir.h"
#include "support/ptr_map.h"

// --- autodiff.c: one backward sweep ---

// Values that lie between what is differentiated by and anything else, numbered; cotangent[i] is null until a gradient
// reaches value i.
typedef struct Sweep {
  MlirModule module;
  MlirOperation func;   // null in the step of a scan
  NnBuilder b;          // where the gradients go
  PtrMap active;
  MlirValue *cotangent;   // Owned
  int n;
} Sweep;
void sweep_activate(Sweep *s, MlirValue v);
bool sweep_is_active(const Sweep *s, MlirValue v);
// Forward, up to `end` (null: all of the block): what depends on an active value through differentiable ops. What
// gradients made and cannot be differentiated as it stands is replaced. False after reporting an op without place here.
bool sweep_mark_active(Sweep *s, MlirBlock block, MlirOperation end);
void sweep_contribute(Sweep *s, MlirValue v, MlirValue cotangent);   // null: nothing
// the op's gradient rule; its users have been there
void sweep_differentiate(Sweep *s, MlirOperation op);
MlirValue sweep_cotangent(const Sweep *s, MlirValue v);   // null: none
void sweep_free(Sweep *s);

// --- autodiff_wide.c: parameters in f32 that are used in bf16 or f16 ---
// the active f32 argument that v is a narrow copy of; null: none
MlirValue sweep_master(const Sweep *s, MlirValue v);
// a cotangent that nothing reads yet, formed in the wide type
MlirValue sweep_widen(NnBuilder *b, MlirValue cotangent, NnDtype dtype);

// --- autodiff_scan.c ---
void scan_vjp(MlirModule module, NnVjp *vjp);   // of the call of a scan

// --- scan_stack.c ---
// A scan of gradients, before it is differentiated itself: its tied carries become stacked ones. False: it has none, or
// after reporting one of too many axes. The call is replaced.
bool scan_stack(MlirModule module, MlirOperation call);
// The same of all scans in a block, and the ops without a gradient rule are expanded (nn_expand_differentiable).
void scan_prepare(MlirModule module, MlirBlock block);

// --- scan_split.c ---
// steps of each segment of a loop, by which those of the loop can be divided; all of them where it has one segment
int64_t scan_segment_length(MlirOperation call, const NnScan *s);
void scan_split(MlirModule module);   // all loops that may be differentiated; the call of a rest has nn.rest

// --- autodiff_signature.c: arguments and updates gathered and then written to the function at once (one by one would
// be quadratic) ---

typedef struct Signature {
  MlirOperation func;
  int n_args, n_results;
  MlirAttribute *arg_attrs, *result_attrs;   // Owned; dictionaries
  MlirValue *results;                        // Owned; operands of the return
} Signature;
Signature signature_of(MlirOperation func);
// init may be NULL, group -1: no such attribute. The argument's number is n_args - 1 afterwards.
MlirValue signature_add_arg(Signature *s, NnType type, MlirLocation loc, const char *role, const char *name,
                            const char *init, int64_t group);
// The same of a part of a tensor of type `whole`.
MlirValue signature_add_part(Signature *s, NnType part, NnType whole, MlirLocation loc, const char *role,
                             const char *name, const char *init, int64_t group);
void signature_set_text(Signature *s, int arg, const char *name, const char *text);   // an attribute more
// value becomes the new content of argument `tied`.
void signature_add_update(Signature *s, MlirValue value, const char *name, int tied);
void signature_finish(Signature *s);   // writes type, attributes and return; frees
void signature_free(Signature *s);     // without writing: after an error

// --- optimizer.c ---

typedef struct OptimizerGroup {
  double beta1, beta2;
  bool frozen;
} OptimizerGroup;
// A function that says how parameters of one type in one group are updated, update.c.
typedef struct Update {
  MlirOperation func;
  int64_t group;
  bool reads_step;      // the number of the step, not only by the corrections
  PtrMap corrections;   // ops 1 - beta^step: 1 for beta1 of the group, 2 for beta2
  PtrMap follows;      // of one for a scalar: its values that have the parameter's shape, as those of the step have not
  PtrMap scalars;      // values of the function that have been computed before all updates, as numbers in scalar
  MlirValue *scalar;   // Owned
  int n_scalars;
} Update;
typedef struct Optimizer {
  int n_updates;
  Update *update;   // Owned
  int n_groups;
  OptimizerGroup *group;           // Owned
  int first_group, n_own_groups;   // of the parameters that the function trains: all, or those of its phase
  double clip_norm;                // 0: none
  int64_t accumulate;              // micro-batches per step
  bool shares;                     // the program says how many, be it 1
  double loss_scale;               // the loss is differentiated times this, at first; 1: none
  int64_t scale_every;             // steps without overflow until the scale doubles; 0: it stays
  bool ranks;                      // gradients are summed over the ranks of a distributed program
  int64_t parts;      // each of so many ranks keeps a part of the state and updates its part of the parameters; 0: all
  bool scatters;      // and of the gradients
  bool keeps_parts;   // and of the parameters
  double ema;         // of the parameters: average = ema average + (1 - ema) updated parameter; 0: none
  bool counts;        // an average that the program declares changes every so many steps
} Optimizer;
// Behind the 3 numbers of each group: share of a micro-batch, whether the rank is the last, number of the step from 1.
// `hyper` ends with the last of them that is read.
enum { HYPER_SHARE, HYPER_LAST, HYPER_STEP };
// Reads nn.groups, nn.clip_norm, nn.accumulate, nn.loss_scale, nn.ema. False after reporting. Owned:
// optimizer_free.
bool optimizer_read(MlirModule module, MlirOperation train, Optimizer *out);
void optimizer_free(Optimizer *o);

typedef struct TrainedParam {
  int arg;   // number of the argument
  int64_t group;
  int update;           // of the optimizer's
  char *name;           // Owned
  char *init;           // Owned; how it begins, for its average; NULL: not told
  MlirValue value;      // the argument
  MlirValue gradient;   // null until known; null for ever if the loss does not depend on it
} TrainedParam;

// With micro-batches, one after the other or on several ranks, the loss has a weight, each one's share of the step,
// which is the last of the numbers in `hyper`: the same arithmetic, however many they are, and be it one.
bool optimizer_has_share(const Optimizer *o);
MlirValue optimizer_add_hyper(const Optimizer *o, Signature *s);                // the argument
MlirValue optimizer_share(const Optimizer *o, NnBuilder *b, MlirValue hyper);   // f64; null: all of the step
// Adds the update of every parameter with a gradient, in the order of the arguments, and what it needs: optimizer
// state, accumulators, clipping, taps, and hyper where that is null. `start` is an op before which the step's scalars
// are computed; scale is of loss_scale_add.
void optimizer_build(Optimizer *o, Signature *s, TrainedParam *params, int n, MlirOperation start, MlirValue scale,
                     MlirValue hyper);
// In @accumulate: adds the gradients to the accumulators.
void optimizer_build_accumulation(const Optimizer *o, Signature *s, TrainedParam *params, int n);

// The step that is being built.
typedef struct Step {
  Optimizer *o;
  Signature *s;
  MlirValue hyper;
  MlirValue finite;   // i1: no gradient overflowed; null where that is not asked
  MlirOperation start;
  MlirValue *updated;   // by number of the argument: a parameter's new value, or this rank's part where ranks keep
                        // parts; null of what is not trained
} Step;
MlirValue step_hyper(NnBuilder *b, MlirValue hyper, int64_t i);   // one of its numbers, f64
// A new state <param>.<name>; *arg is its number.
MlirValue step_add_state(Step *step, NnBuilder *b, const TrainedParam *p, NnType type, const char *name,
                         const char *init, int *arg);
void step_update_state(Step *step, NnBuilder *b, const TrainedParam *p, const char *suffix, int arg, MlirValue value);
void step_add_parameter(Step *step, NnBuilder *b, const TrainedParam *p, MlirValue updated);

// update.c
// The number of the function that updates a parameter of this type, of so many in o; -1 after reporting.
int update_find(Optimizer *o, MlirModule module, const char *name, int64_t group, NnType type);
void update_free(Update *u);
void update_erase(Optimizer *o);   // the functions themselves
// What p becomes of its gradient g, with the states that it needs.
void update_build(Step *step, NnBuilder *b, const TrainedParam *p, MlirValue g);

// loss_scale.c. A changing scale is an argument of the step; null where there is none.
MlirValue loss_scale_add(const Optimizer *o, Signature *s);
// the cotangent of the loss; share is of optimizer_share
MlirValue loss_scale_seed(const Optimizer *o, NnBuilder *b, NnType loss, MlirValue share, MlirValue scale);
MlirValue loss_scale_remove(const Optimizer *o, NnBuilder *b, MlirValue gradient, MlirValue scale);
// old where the step overflowed; updated if finite is null
MlirValue loss_scale_choose(NnBuilder *b, MlirValue finite, MlirValue updated, MlirValue old);
// States that the forward pass updates keep their values, too (the first n_states results), where states_finite is
// false; the scale itself gets its update.
void loss_scale_update(const Optimizer *o, NnBuilder *b, Signature *s, int n_states, MlirValue scale, MlirValue finite,
                       MlirValue states_finite);

#endif
