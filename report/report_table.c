// The tables of the memory report: what is computed again and why, and what memory holds when it is fullest.
#include <stdlib.h>

#include "report/report_internal.h"

static void write_row(FILE *out, const ReportPlan *plan, const ReportAgain *again, double most) {
  char bytes[32], seconds[32], once[32], type[160];
  char *name = report_step_name(plan, again->step), *path = report_step_path(plan, again->step),
       *source = report_step_source(plan, again->step);
  const PlanStep *s = &plan->p.steps[again->step];
  fputs("<tr><td>", out);
  report_escape(out, name);
  fputs("<small>", out);
  report_escape(out, path);
  if (*path && *source) fputs(" · ", out);
  report_escape(out, source);
  fputs("</small></td><td>", out);
  for (int r = 0; r < s->n_results && r < 2; r++) {
    NnType t = nn_value_type(plan->p.values[s->first_result + r].value);
    fprintf(out, "%s%s", r ? "<br>" : "", nn_type_format(&t, type, sizeof type));
  }
  if (s->n_results > 2) fprintf(out, "<br>and %d more", s->n_results - 2);
  fprintf(out,
          "</td><td>%s</td><td>%.0f</td><td><b "
          "style=\"width:%.1f%%\"></b>%s</td><td>%d</td><td>%s</td><td>%s</td><td>%.2f %%</td></tr>\n",
          report_bytes(again->bytes, bytes, sizeof bytes), again->freed_steps,
          most > 0 ? 100 * again->byte_steps / most : 0, "", again->times,
          report_seconds(again->times > 0 ? again->seconds / again->times : 0, once, sizeof once),
          report_seconds(again->seconds, seconds, sizeof seconds),
          plan->total_seconds > 0 ? 100 * again->seconds / plan->total_seconds : 0);
  free(name);
  free(path);
  free(source);
}

// What the pass `recompute` did before any budget.
static void write_inside(FILE *out, const ReportPlan *plan) {
  char text[32];
  int kernels = 0;
  int64_t saved = nn_attr_i64(plan->func, ATTR_checkpoint_saved, 0);
  for (int i = 0; i < plan->n; i++) kernels += nn_has_attr(plan->p.steps[i].op, ATTR_inside);
  if (saved <= 0) return;
  fprintf(out,
          "<p id=\"inside\">Whatever the budget, %d kernels of the backward pass compute cheap values again inside "
          "themselves, without a step of their own: %s of forward results less to keep.</p>\n",
          kernels, report_bytes(saved, text, sizeof text));
}

void report_write_again(FILE *out, const ReportPlan *plan) {
  enum { MAX_ROWS = 150 };
  int n, times = 0;
  double seconds = 0, rest = 0;
  ReportAgain *list = report_plan_again(plan, &n);
  char text[32], rest_text[32];
  if (n == 0) {
    fputs("<p>Every step runs once.</p>\n", out);
    write_inside(out, plan);
    free(list);
    return;
  }
  for (int i = 0; i < n; i++) {
    times += list[i].times;
    seconds += list[i].seconds;
    if (i >= MAX_ROWS) rest += list[i].seconds;
  }
  fprintf(out,
          "<p>%d values are computed again, %d executions in all, %s of predicted time. A value is dropped after a use "
          "and computed again before the next one; the longer "
          "the gap and the larger the value, the more it frees. Ordered by bytes × steps.</p>\n",
          n, times, report_seconds(seconds, text, sizeof text));
  write_inside(out, plan);
  fputs("<div class=\"wide\"><table><thead><tr><th>value</th><th>type</th><th>size</th><th>steps free</th><th>bytes × "
        "steps</th><th>times</th><th>each</th><th>together</th>"
        "<th>of the step</th></tr></thead><tbody>\n",
        out);
  for (int i = 0; i < n && i < MAX_ROWS; i++) write_row(out, plan, &list[i], list[0].byte_steps);
  fputs("</tbody></table></div>\n", out);
  if (n > MAX_ROWS)
    fprintf(out, "<p>And %d smaller ones, %s together.</p>\n", n - MAX_ROWS,
            report_seconds(rest, rest_text, sizeof rest_text));
  free(list);
}

void report_write_peaks(FILE *out, const ReportPlan *before, const ReportPlan *after) {
  char text[32];
  fprintf(out, "<table class=\"peaks\"><thead><tr><th>at the peak</th>%s<th>this plan</th></tr></thead><tbody>\n",
          before ? "<th>without</th>" : "");
  for (int k = REPORT_KINDS - 1; k >= 0; k--) {
    fprintf(out, "<tr><td><i class=\"b%d\"></i>%s</td>", k, report_kind_names[k]);
    if (before)
      fprintf(out, "<td>%s</td>", before->n ? report_bytes(before->live[before->peak_step][k], text, sizeof text) : "");
    fprintf(out, "<td>%s</td></tr>\n",
            after->n ? report_bytes(after->live[after->peak_step][k], text, sizeof text) : "");
  }
  fputs("<tr class=\"sum\"><td>live</td>", out);
  if (before) fprintf(out, "<td>%s</td>", report_bytes(before->peak, text, sizeof text));
  fprintf(out, "<td>%s</td></tr>\n<tr><td>arena</td>", report_bytes(after->peak, text, sizeof text));
  if (before) fprintf(out, "<td>%s</td>", report_bytes(before->arena, text, sizeof text));
  fprintf(out, "<td>%s</td></tr>\n</tbody></table>\n", report_bytes(after->arena, text, sizeof text));
}
