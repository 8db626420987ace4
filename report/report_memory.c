// Live memory over the steps of a training step, stacked by kind, without and with recomputation. More steps than
// columns are drawn by the fullest step of each column, so that no peak is lost.
#include <stdlib.h>
#include <string.h>

#include "report/report_internal.h"
#include "support/alloc.h"

enum { HEIGHT = 218, TITLE = 44, GAP = 34, BOTTOM = 44, PLOT = REPORT_WIDTH - REPORT_LEFT - REPORT_RIGHT };

typedef struct Column {
  int begin, step;
} Column;   // first step, and the fullest one

static Column *make_columns(const ReportPlan *plan, int *count) {
  int n = plan->n < PLOT ? plan->n : PLOT;
  Column *columns = allocate_array((size_t)n + 1, sizeof *columns);
  for (int c = 0; c < n; c++) {
    int begin = (int)((int64_t)plan->n * c / n), end = (int)((int64_t)plan->n * (c + 1) / n);
    columns[c] = (Column){begin, begin};
    for (int i = begin; i < end; i++)
      if (report_plan_live(plan, i) > report_plan_live(plan, columns[c].step)) columns[c].step = i;
  }
  *count = n;
  return columns;
}

// Area from the axis up to kind k's upper edge; the kinds below are painted over it.
static void draw_area(FILE *out, const ReportPlan *plan, const Column *columns, int n, int k, const ReportAxis *x,
                      const ReportAxis *y) {
  double before = -1;
  fprintf(out, "<path class=\"k%d\" d=\"M%.1f %.1f", k, report_axis_at(x, 0), y->low);
  for (int c = 0; c < n; c++) {
    int64_t sum = 0;
    for (int j = 0; j <= k; j++) sum += plan->live[columns[c].step][j];
    double top = (double)sum < y->least ? y->low : report_axis_at(y, (double)sum);
    if (top - before < 0.05 && before - top < 0.05) continue;
    fprintf(out, "H%.1fV%.1f", report_axis_at(x, columns[c].begin), top);
    before = top;
  }
  fprintf(out, "H%.1fV%.1fz\"/>\n", report_axis_at(x, plan->n), y->low);
}

// "826 MiB", dashed, across the panel. Labels stand above the line at the right end, or at the left one.
static void draw_level(FILE *out, const ReportAxis *x, const ReportAxis *y, int64_t level, const char *class,
                       const char *what, bool left) {
  char text[32];
  double at = report_axis_at(y, (double)level);
  fprintf(out,
          "<path class=\"%s\" d=\"M%.1f %.1fH%.1f\"/><text class=\"note halo\" x=\"%.1f\" y=\"%.1f\" "
          "text-anchor=\"%s\">%s %s</text>\n",
          class, x->low, at, x->high, left ? x->low + 6 : x->high - 6, at - 5, left ? "start" : "end", what,
          report_bytes(level, text, sizeof text));
}

static void draw_phases(FILE *out, const ReportPlan *plan, const ReportAxis *x, double top, double bottom) {
  if (plan->first_backward <= 0 || plan->first_backward >= plan->n) return;
  double at = report_axis_at(x, plan->first_backward);
  fprintf(out, "<path class=\"phase\" d=\"M%.1f %.1fV%.1f\"/>", at, top - 16, bottom);
  fprintf(out, "<text class=\"tick\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">forward</text>", at - 6, top - 5);
  fprintf(out, "<text class=\"tick\" x=\"%.1f\" y=\"%.1f\">backward and updates</text>\n", at + 6, top - 5);
}

// Where the axis begins: 0, unless the persistent part would leave no room for what changes.
static int64_t axis_start(int64_t persistent, int64_t most) {
  int64_t start = persistent - (most - persistent) / 4;
  return (double)persistent > 0.75 * (double)most && start > 0 ? start : 0;
}

static void draw_panel(FILE *out, const ReportPlan *plan, const char *title, double top, int64_t most, int steps,
                       int64_t budget, int number) {
  char peak[32], text[32];
  int n;
  Column *columns = make_columns(plan, &n);
  ReportAxis y = report_axis_bytes(axis_start(plan->persistent, most), most, top + TITLE + HEIGHT, top + TITLE),
             x = report_axis_plain(steps, REPORT_LEFT, REPORT_WIDTH - REPORT_RIGHT, 12);
  fprintf(out,
          "<text class=\"title\" x=\"%d\" y=\"%.1f\">%s<tspan class=\"sub\" dx=\"10\">at most %s live, at step %d of "
          "%d; arena %s%s</tspan></text>\n",
          REPORT_LEFT, top + 14, title, report_bytes(plan->peak, peak, sizeof peak), plan->peak_step, plan->n,
          report_bytes(plan->arena, text, sizeof text), y.least > 0 ? "; the axis does not start at 0" : "");
  report_axis_draw_y(out, &y, x.low, x.high);
  for (int k = REPORT_KINDS - 1; k >= 0; k--) draw_area(out, plan, columns, n, k, &x, &y);
  draw_phases(out, plan, &x, top + TITLE, y.low);
  if (budget > 0 && budget <= most) draw_level(out, &x, &y, budget, "budget", "budget", false);
  fprintf(out, "<circle class=\"peak\" cx=\"%.1f\" cy=\"%.1f\" r=\"3.5\"/>\n",
          report_axis_at(&x, plan->peak_step + 0.5), report_axis_at(&y, (double)plan->peak));
  report_axis_draw_x(out, &x, y.low, NULL);
  fprintf(out,
          "<g class=\"hover\" data-panel=\"%d\" data-left=\"%.1f\" data-right=\"%.1f\" data-steps=\"%d\"><path "
          "class=\"cross\" d=\"\" data-top=\"%.1f\" data-bottom=\"%.1f\"/>"
          "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%d\" fill=\"none\" pointer-events=\"all\"/></g>\n",
          number, x.low, x.high, steps, top + TITLE, y.low, x.low, top + TITLE, x.high - x.low, HEIGHT);
  free(columns);
}

// What the script shows under the pointer: rows of [first step, fullest step, bytes by kind].
static void write_data(FILE *out, const ReportPlan *plan) {
  int n;
  Column *columns = make_columns(plan, &n);
  fputs("[", out);
  for (int c = 0; c < n; c++) {
    fprintf(out, "%s[%d,%d", c ? "," : "", columns[c].begin, columns[c].step);
    for (int k = 0; k < REPORT_KINDS; k++) fprintf(out, ",%lld", (long long)plan->live[columns[c].step][k]);
    fputs("]", out);
  }
  fputs("]", out);
  free(columns);
}

void report_draw_memory(FILE *out, const ReportPlan *before, const ReportPlan *after, int64_t budget) {
  const ReportPlan *first = before ? before : after;
  int64_t most = first->peak > after->peak ? first->peak : after->peak;
  if (budget > most && budget < 2 * most) most = budget;
  most += (most - axis_start(after->persistent, most)) / 16;
  int steps = first->n > after->n ? first->n : after->n, height = TITLE + HEIGHT + BOTTOM;
  if (before) height += TITLE + HEIGHT + GAP;
  bool present[REPORT_KINDS] = {0};
  for (int k = 0; k < REPORT_KINDS; k++) {
    for (int i = 0; i < first->n; i++) present[k] |= first->live[i][k] > 0;
    for (int i = 0; i < after->n; i++) present[k] |= after->live[i][k] > 0;
  }
  report_draw_legend(out, present);
  fprintf(out,
          "<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"live memory over the steps\" id=\"memory-chart\">\n",
          REPORT_WIDTH, height);
  if (before) draw_panel(out, before, "Without recomputation", 0, most, steps, budget, 0);
  draw_panel(out, after, before ? "This plan" : "This plan, nothing recomputed", before ? TITLE + HEIGHT + GAP : 0,
             most, steps, budget, 1);
  fprintf(out,
          "<text class=\"tick name\" x=\"%d\" y=\"%d\" text-anchor=\"middle\">step, in the order of execution</text>\n",
          REPORT_LEFT + PLOT / 2, height - 6);
  fputs("</svg>\n<p class=\"readout\" id=\"readout\">&#160;</p>\n<script>var memory=[", out);
  if (before) write_data(out, before);
  else fputs("[]", out);
  fputs(",", out);
  write_data(out, after);
  fputs("];</script>\n", out);
}
