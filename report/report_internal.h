// Private to the memory report: a planned function as pieces of memory over time, and what the parts of the page share.
#ifndef NNC_PASSES_REPORT_INTERNAL_H
#define NNC_PASSES_REPORT_INTERNAL_H

#include "passes/plan/plan.h"
#include "report/report.h"

// What memory holds, from the bottom of the stacked chart to its top.
typedef enum ReportKind {
  REPORT_PARAMETERS,    // and running statistics
  REPORT_OPTIMIZER,     // state
  REPORT_INPUTS,        // batch, random keys, learning rates
  REPORT_GRADIENTS,     // results of backward and update steps, accumulators
  REPORT_ACTIVATIONS,   // results of forward steps
  REPORT_RECOMPUTED,    // the same, computed again
  REPORT_MOVED,         // what comes back from memory far away
  REPORT_WORKSPACE,     // scratch of library calls and reductions
  REPORT_KINDS,
} ReportKind;
extern const char *const report_kind_names[REPORT_KINDS];

// ---- report_plan.c ----

bool report_is_copy(const PlanStep *s);   // to memory far away, or from there

// What one range of the arena holds from one step to another. A buffer that is taken over in place is a piece for each
// holder.
typedef struct ReportPiece {
  ReportKind kind;
  int lower, upper;        // steps [lower, upper)
  int64_t offset, bytes;   // in the arena
  int step, result;        // that makes it; step -1: argument number `result`; result -1: workspace
} ReportPiece;

typedef struct ReportPlan {
  MlirOperation func;
  PlanProgram p;
  PlanLayout l;
  int n;                       // steps
  int64_t arena, persistent;   // bytes
  int n_pieces;
  ReportPiece *pieces;             // Owned
  int64_t (*live)[REPORT_KINDS];   // Owned, per step: bytes
  int peak_step;
  int64_t peak;                     // bytes live at peak_step
  double *seconds, total_seconds;   // Owned, per step: predicted
  int first_backward;               // step at which the forward pass ends; n: no other
} ReportPlan;

// func: of the module; null: an empty plan
void report_plan_build(ReportPlan *plan, MlirModule module, MlirOperation func, const NnTarget *target);
void report_plan_free(ReportPlan *plan);
int64_t report_plan_live(const ReportPlan *plan, int step);   // bytes of all kinds
// "kernel_3 add+relu", "conv2d". Owned: free().
char *report_step_name(const ReportPlan *plan, int step);
// The layer that a step belongs to: the path of a parameter it reads, or "after" that of the nearest step before it.
// Owned: free().
char *report_step_path(const ReportPlan *plan, int step);
// "model.nn:12", or "". Owned: free().
char *report_step_source(const ReportPlan *plan, int step);

// One value that is computed more than once.
typedef struct ReportAgain {
  int step;             // first execution; of a clone when the original is gone
  int times;            // executions beyond the first
  int64_t bytes;        // of its results
  double byte_steps;    // bytes x steps during which they are not held
  double freed_steps;   // byte_steps over bytes
  double seconds;       // predicted, all executions beyond the first
} ReportAgain;
// By falling byte_steps. Owned: free().
ReportAgain *report_plan_again(const ReportPlan *plan, int *n);

// ---- drawing; report_text.c ----

void report_escape(FILE *out, const char *text);                      // for HTML text and attribute values
const char *report_bytes(int64_t bytes, char *buf, size_t size);      // "3.98 GiB"
const char *report_seconds(double seconds, char *buf, size_t size);   // "1.23 ms"

// A linear axis from `least` to `most` drawn over [low, high] in pixels, with round ticks.
typedef struct ReportAxis {
  double least, most, low, high, tick, unit;
  const char *unit_name;
} ReportAxis;
ReportAxis report_axis_bytes(int64_t least, int64_t most, double low, double high);
ReportAxis report_axis_plain(double most, double low, double high, int max_ticks);
double report_axis_at(const ReportAxis *axis, double value);
// Horizontal grid lines from x to x2 with labels left of x; `name` for the axis, may be NULL.
void report_axis_draw_y(FILE *out, const ReportAxis *axis, double x, double x2);
// Ticks and labels below y.
void report_axis_draw_x(FILE *out, const ReportAxis *axis, double y, const char *name);

enum { REPORT_WIDTH = 1120, REPORT_LEFT = 78, REPORT_RIGHT = 16 };   // pixels of a full-width drawing

void report_draw_legend(FILE *out, const bool *present);
// report_memory.c
void report_draw_memory(FILE *out, const ReportPlan *before, const ReportPlan *after, int64_t budget);
void report_draw_arena(FILE *out, const ReportPlan *plan);   // report_arena.c
// report_curve.c
void report_draw_curve(FILE *out, const NnReport *report, const ReportPlan *before, const ReportPlan *after,
                       int64_t budget);
// report_table.c
void report_write_again(FILE *out, const ReportPlan *plan);
void report_write_peaks(FILE *out, const ReportPlan *before, const ReportPlan *after);

// report_style.c: the style sheet and the script.
extern const char *const report_style[];   // in parts, NULL at the end
extern const char report_script[];

#endif
