// Added time over memory: what was found for each budget, and the lower bound that no schedule can go below.
#include <math.h>
#include <stdlib.h>

#include "report/report_internal.h"
#include "support/alloc.h"

enum { WIDTH = 640, HEIGHT = 300, LEFT = 58, RIGHT = 18, TOP = 26, BOTTOM = 46 };

typedef struct Curve {
  const RematSweepPoint *points;   // Borrowed
  int n;
  ReportAxis x, y;
} Curve;

static double px(const Curve *c, int64_t bytes) { return report_axis_at(&c->x, (double)bytes); }
static double py(const Curve *c, double overhead) { return report_axis_at(&c->y, 100 * overhead); }

static int by_arena(const void *a, const void *b) {
  const RematSweepPoint *x = a, *y = b;
  return x->arena_bytes != y->arena_bytes ? (x->arena_bytes < y->arena_bytes ? 1 : -1)
                                          : (x->overhead > y->overhead) - (x->overhead < y->overhead);
}

// A plan serves every larger budget too: a plan that costs no less than one with a smaller arena is left out, and the
// plan of the page is one of them. By falling arena. Owned: free().
static RematSweepPoint *best_points(const RematSweep *sweep, int64_t arena, double overhead, int *count) {
  int n = 0, kept = 0;
  RematSweepPoint *points = allocate_array((size_t)sweep->n + 1, sizeof *points);
  for (int i = 0; i < sweep->n; i++)
    if (sweep->points[i].feasible) points[n++] = sweep->points[i];
  points[n++] = (RematSweepPoint){.budget_bytes = arena,
                                  .arena_bytes = arena,
                                  .overhead = overhead,
                                  .lower_bound = NAN,
                                  .feasible = true};
  qsort(points, (size_t)n, sizeof *points, by_arena);
  for (int i = 0; i < n; i++) {
    bool beaten = false;
    for (int j = i + 1; j < n; j++) beaten |= points[j].overhead <= points[i].overhead;
    if (!beaten) points[kept++] = points[i];
  }
  *count = kept;
  return points;
}

static bool shows_bound(const RematSweepPoint *p) {
  return p->feasible && isfinite(p->lower_bound) && p->lower_bound >= 0;
}

static void draw_line(FILE *out, const Curve *c, const char *class, const RematSweepPoint *p, int n, bool bound) {
  const char *move = "M";
  fprintf(out, "<path class=\"%s\" d=\"", class);
  for (int i = 0; i < n; i++) {
    if (bound && !shows_bound(&p[i])) continue;
    fprintf(out, "%s%.1f %.1f", move, px(c, bound ? p[i].budget_bytes : p[i].arena_bytes),
            py(c, bound ? p[i].lower_bound : p[i].overhead));
    move = "L";
  }
  fputs("\"/>\n", out);
}

static void draw_points(FILE *out, const Curve *c) {
  char budget[32], arena[32];
  for (int i = 0; i < c->n; i++) {
    const RematSweepPoint *p = &c->points[i];
    if (!p->feasible) continue;
    fprintf(out, "<circle class=\"found\" cx=\"%.1f\" cy=\"%.1f\" r=\"3\"><title>arena %s: %+.2f %% time",
            px(c, p->arena_bytes), py(c, p->overhead), report_bytes(p->arena_bytes, arena, sizeof arena),
            100 * p->overhead);
    if (shows_bound(p))
      fprintf(out, "; at least %+.2f %% for a budget of %s", 100 * p->lower_bound,
              report_bytes(p->budget_bytes, budget, sizeof budget));
    fputs("</title></circle>\n", out);
  }
}

// Budgets below the smallest that was met.
static void draw_limit(FILE *out, const Curve *c, int64_t smallest) {
  double x = px(c, smallest);
  fprintf(out, "<rect class=\"never\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"/>", c->x.low, c->y.high,
          x - c->x.low, c->y.low - c->y.high);
  if (x - c->x.low > 120)
    fprintf(out, "<text class=\"note\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">no plan found</text>\n",
            (x + c->x.low) / 2, (c->y.low + c->y.high) / 2);
}

void report_draw_curve(FILE *out, const NnReport *report, const ReportPlan *before, const ReportPlan *after,
                       int64_t budget) {
  double overhead = nn_attr_f64(after->func, ATTR_overhead, 0), most = overhead;
  int64_t widest = before && before->arena > after->arena ? before->arena : after->arena;
  static const RematSweep none;
  const RematSweep *sweep = report->sweep ? report->sweep : &none;
  int n, n_bounds = 0;
  RematSweepPoint *points = best_points(sweep, after->arena, overhead, &n);
  for (int i = 0; i < n; i++)
    if (points[i].overhead > most) most = points[i].overhead;
  for (int i = 0; i < sweep->n; i++) {
    if (sweep->points[i].budget_bytes > widest) widest = sweep->points[i].budget_bytes;
    if (shows_bound(&sweep->points[i]) && sweep->points[i].lower_bound > most) most = sweep->points[i].lower_bound;
    n_bounds += shows_bound(&sweep->points[i]);
  }
  Curve c = {.points = points,
             .n = n,
             .x = report_axis_bytes(0, widest + widest / 50, LEFT, WIDTH - RIGHT),
             .y = report_axis_plain(most > 0 ? 110 * most : 10, TOP + HEIGHT, TOP, 6)};
  fprintf(out, "<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"added time over memory\" id=\"curve-chart\">\n",
          WIDTH, TOP + HEIGHT + BOTTOM);
  if (sweep->n > 0) draw_limit(out, &c, points[n - 1].arena_bytes);
  report_axis_draw_y(out, &c.y, c.x.low, c.x.high);
  if (n_bounds > 1) draw_line(out, &c, "bound", sweep->points, sweep->n, true);
  draw_line(out, &c, "found", points, n, false);
  draw_points(out, &c);
  if (budget > 0 && (double)budget < c.x.most)
    fprintf(out,
            "<path class=\"budget\" d=\"M%.1f %.1fV%.1f\"/><text class=\"note halo\" x=\"%.1f\" y=\"%.1f\" "
            "text-anchor=\"middle\">budget</text>\n",
            px(&c, budget), c.y.low, c.y.high, px(&c, budget), c.y.high - 8);
  fprintf(out,
          "<circle class=\"here\" cx=\"%.1f\" cy=\"%.1f\" r=\"5.5\"><title>this plan: %+.2f %% time</title></circle>\n",
          px(&c, after->arena), py(&c, overhead), 100 * overhead);
  report_axis_draw_x(out, &c.x, c.y.low, "memory of the step");
  fprintf(out,
          "<text class=\"tick name\" transform=\"translate(14 %.1f) rotate(-90)\" text-anchor=\"middle\">added time, "
          "%%</text>\n",
          (c.y.low + c.y.high) / 2);
  fputs("</svg>\n<ul class=\"legend\"><li><i class=\"dot here\"></i>this plan</li>", out);
  if (n > 1) fputs("<li><i class=\"line found\"></i>plans found</li>", out);
  if (n_bounds > 1) fputs("<li><i class=\"line bound\"></i>lower bound: no plan adds less</li>", out);
  fputs("</ul>\n", out);
  free(points);
}
