// The page of the memory report: header with the figures, then the charts and tables; report.h.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report/report_internal.h"
#include "support/alloc.h"

typedef struct Page {
  FILE *out;
  const NnReport *report;
  ReportPlan before, after;
  const ReportPlan *shown_before;   // NULL: nothing to compare with
  char *model;                      // Owned
  int64_t budget;                   // bytes, 0: none
  double overhead, bound;           // bound NaN: not known
} Page;

static char *attribute_text(MlirOperation op, const char *name, const char *otherwise) {
  MlirAttribute a = mlirOperationIsNull(op) ? mlirAttributeGetNull() : nn_attribute(op, name);
  return mlirAttributeIsNull(a) || !mlirAttributeIsAString(a) ? copy_string(otherwise)
                                                              : nn_string_copy(mlirStringAttrGetValue(a));
}

static void write_line(const Page *p) {
  char arena[32], budget[32];
  fputs("<p class=\"line\" id=\"line\">", p->out);
  fprintf(p->out, "recompute %+.1f %%", 100 * p->overhead);
  if (isfinite(p->bound)) fprintf(p->out, " (lower bound %+.1f %%)", 100 * p->bound);
  fprintf(p->out, ", arena %s", report_bytes(p->after.arena, arena, sizeof arena));
  if (p->budget > 0) fprintf(p->out, " of %s", report_bytes(p->budget, budget, sizeof budget));
  fputs("</p>\n", p->out);
}

static void write_tile(FILE *out, const char *id, const char *what, const char *value, const char *note) {
  fprintf(out, "<li id=\"%s\"><span>%s</span><strong>%s</strong><small>%s</small></li>\n", id, what, value, note);
}

// What lies in memory far away, and what passes there and back.
static void write_far(const Page *p) {
  char value[64], note[96], out[32], in[32];
  int64_t far = nn_attr_i64(p->after.func, ATTR_far_arena, 0), moved[NN_LANES] = {0};
  if (!far) return;
  for (int i = 0; i < p->after.n; i++) {
    const PlanStep *s = &p->after.p.steps[i];
    if (report_is_copy(s)) moved[s->lane] += p->after.p.values[s->first_result].bytes;
  }
  report_bytes(far, value, sizeof value);
  snprintf(note, sizeof note, "%s out, %s in a step", report_bytes(moved[NN_LANE_OUT], out, sizeof out),
           report_bytes(moved[NN_LANE_IN], in, sizeof in));
  write_tile(p->out, "far", "far away", value, note);
}

static void write_tiles(const Page *p) {
  char value[64], note[96], text[32];
  fputs("<ul class=\"tiles\">\n", p->out);
  snprintf(note, sizeof note, "%lld bytes", (long long)p->after.arena);
  write_tile(p->out, "arena", "arena", report_bytes(p->after.arena, value, sizeof value), note);
  if (p->budget > 0) {
    snprintf(note, sizeof note, "%.1f %% of it used", 100.0 * (double)p->after.arena / (double)p->budget);
    write_tile(p->out, "budget", "budget", report_bytes(p->budget, value, sizeof value), note);
  }
  if (p->shown_before) {
    snprintf(note, sizeof note, "this plan: %.1f %% of it", 100.0 * (double)p->after.arena / (double)p->before.arena);
    write_tile(p->out, "without", "without recomputation", report_bytes(p->before.arena, value, sizeof value), note);
  }
  snprintf(value, sizeof value, "%+.2f %%", 100 * p->overhead);
  snprintf(note, sizeof note, "predicted step %s", report_seconds(p->after.total_seconds, text, sizeof text));
  write_tile(p->out, "overhead", "added time", value, note);
  if (isfinite(p->bound)) {
    snprintf(value, sizeof value, "%+.2f %%", 100 * p->bound);
    snprintf(note, sizeof note, "gap %.2f points", 100 * (p->overhead - p->bound));
    write_tile(p->out, "bound", "lower bound", value, note);
  }
  int again = 0;
  for (int i = 0; i < p->after.n; i++) again += p->after.p.steps[i].recomputed;
  snprintf(value, sizeof value, "%d of %d", again, p->after.n);
  write_tile(p->out, "again", "steps run again", value, again ? "with the same results" : "");
  write_far(p);
  fputs("</ul>\n", p->out);
}

// Of a training in phases: all of them.
static void write_phases(const Page *p) {
  NnFunctions functions = nn_public_functions(p->report->after);
  char phase[128], arena[32];
  if (!nn_has_attr(mlirModuleGetOperation(p->report->after), ATTR_phases)) return;
  fputs("<table id=\"phases\"><tr><th>phase</th><th>arena</th><th>added time</th></tr>\n", p->out);
  for (int f = 0; f < functions.n; f++) {
    MlirOperation func = functions.items[f];
    if (!nn_is_train(func)) continue;
    nn_phase_of(func, phase, sizeof phase);
    fputs("<tr><td>", p->out);
    report_escape(p->out, phase);
    fprintf(p->out, "</td><td>%s</td><td>%+.2f %%</td></tr>\n",
            report_bytes(nn_attr_i64(func, ATTR_arena, 0), arena, sizeof arena),
            100 * nn_attr_f64(func, ATTR_overhead, 0));
  }
  fputs("</table>\n", p->out);
}

static void write_head(const Page *p) {
  fputs("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
        "content=\"width=device-width,initial-scale=1\"><title>",
        p->out);
  report_escape(p->out, p->model);
  fputs(": memory plan</title>\n<style>", p->out);
  for (int i = 0; report_style[i]; i++) fputs(report_style[i], p->out);
  fputs("</style></head><body><main>\n<h1>", p->out);
  report_escape(p->out, p->model);
  char phase[128] = "";
  if (!mlirOperationIsNull(p->after.func)) nn_phase_of(p->after.func, phase, sizeof phase);
  fputs(*phase ? ": memory of phase " : ": memory of one training step", p->out);
  if (*phase) {
    report_escape(p->out, phase);
    fputs(", which needs most", p->out);
  }
  fputs("</h1>\n<p>", p->out);
  MlirOperation top = mlirModuleGetOperation(p->report->after);
  char *source = attribute_text(top, ATTR_source, ""), *policy = attribute_text(p->after.func, ATTR_remat, "none"),
       text[32];
  report_escape(p->out, source);
  fputs(", policy ", p->out);
  report_escape(p->out, policy);
  fprintf(p->out, ", %s of parameters and optimizer state</p>\n", report_bytes(p->after.persistent, text, sizeof text));
  free(source);
  free(policy);
  write_line(p);
  write_tiles(p);
  write_phases(p);
}

static void write_sections(const Page *p) {
  fputs("<section id=\"memory\"><h2>Memory over the step</h2>\n<p>What is live while each step runs, by kind. The dot "
        "marks the peak.</p>\n",
        p->out);
  report_draw_memory(p->out, p->shown_before, &p->after, p->budget);
  fputs("</section>\n<section id=\"curve\"><h2>Added time against memory</h2>\n<div class=\"pair\"><div>\n", p->out);
  report_draw_curve(p->out, p->report, p->shown_before, &p->after, p->budget);
  fputs("</div><aside>\n", p->out);
  report_write_peaks(p->out, p->shown_before, &p->after);
  fputs("</aside></div></section>\n<section id=\"map\"><h2>The arena</h2>\n<p>Each rectangle is a buffer: where it "
        "lies, and from which step to which. Point at one to see what it holds.</p>\n",
        p->out);
  report_draw_arena(p->out, &p->after);
  fputs("</section>\n<section id=\"recomputed\"><h2>What is computed again, and what that frees</h2>\n", p->out);
  report_write_again(p->out, &p->after);
  fputs("</section>\n", p->out);
}

static bool recomputes(const ReportPlan *plan) {
  for (int i = 0; i < plan->n; i++)
    if (plan->p.steps[i].recomputed) return true;
  return false;
}

void nn_report_write(const NnReport *report, FILE *out) {
  Page p = {.out = out, .report = report};
  MlirOperation top = mlirModuleGetOperation(report->after);
  MlirOperation shown = nn_report_function(report->after);
  report_plan_build(&p.after, report->after, shown, report->target);
  if (!mlirModuleIsNull(report->before) && !mlirOperationIsNull(shown)) {
    char *name = attribute_text(shown, "sym_name", "");
    report_plan_build(&p.before, report->before, nn_module_function(report->before, name), report->target);
    free(name);
  }
  if (recomputes(&p.after) && p.before.n > 0) p.shown_before = &p.before;
  p.model = attribute_text(top, ATTR_model, "model");
  p.budget = nn_attr_i64(top, ATTR_budget, 0);
  p.overhead = mlirOperationIsNull(p.after.func) ? 0 : nn_attr_f64(p.after.func, ATTR_overhead, 0);
  p.bound = mlirOperationIsNull(p.after.func) ? NAN : nn_attr_f64(p.after.func, ATTR_overhead_bound, NAN);
  write_head(&p);
  if (p.after.n > 0) write_sections(&p);
  fprintf(out,
          "<footer>Written by nnc. Times are the cost model's.</footer>\n</main><script>%s</script></body></html>\n",
          report_script);
  report_plan_free(&p.after);
  report_plan_free(&p.before);
  free(p.model);
}
