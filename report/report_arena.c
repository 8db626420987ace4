// The arena as a map: a rectangle for each piece, offset upwards, steps to the right. The persistent part, which does
// not change, is a band at the bottom with a scale of its own, so that the rest has room. The largest pieces are drawn
// one by one with their description; the rest as one path for each kind, and what is too small to see not at all.
#include <stdlib.h>

#include "report/report_internal.h"
#include "support/alloc.h"

enum { HEIGHT = 430, BAND = 34, TOP = 14, BOTTOM = 44, MAX_DESCRIBED = 3000, MAX_OUTLINED = 40000 };

static double area(const ReportPiece *piece) { return (double)piece->bytes * (piece->upper - piece->lower); }

static int by_area(const void *a, const void *b) {
  const ReportPiece *x = *(const ReportPiece *const *)a, *y = *(const ReportPiece *const *)b;
  if (area(x) != area(y)) return area(x) < area(y) ? 1 : -1;
  return x < y ? -1 : x > y;
}

static void describe(FILE *out, const ReportPlan *plan, const ReportPiece *piece) {
  char bytes[32], type[160];
  char *name = piece->step < 0 ? plan_argument_name(plan->func, piece->result) : report_step_name(plan, piece->step);
  char *path = piece->step < 0 ? NULL : report_step_path(plan, piece->step);
  report_escape(out, name);
  if (piece->result < 0) fputs(" (workspace)", out);
  if (path && *path) {
    fputs(", ", out);
    report_escape(out, path);
  }
  if (piece->result >= 0) {
    int value = piece->step < 0 ? piece->result : plan->p.steps[piece->step].first_result + piece->result;
    NnType t = nn_value_type(plan->p.values[value].value);
    fprintf(out, "\n%s, ", nn_type_format(&t, type, sizeof type));
  } else {
    fputc('\n', out);
  }
  fprintf(out, "%s at offset %lld\n%s, steps %d to %d", report_bytes(piece->bytes, bytes, sizeof bytes),
          (long long)piece->offset, report_kind_names[piece->kind], piece->lower, piece->upper - 1);
  free(name);
  free(path);
}

typedef struct Map {
  ReportAxis x, y, band;   // band: offsets below `persistent`
  int64_t persistent;
} Map;

static double map_y(const Map *map, int64_t offset) {
  return report_axis_at(offset < map->persistent ? &map->band : &map->y, (double)offset);
}

// The upper edge: a piece that ends where the band does belongs to it.
static double map_top(const Map *map, const ReportPiece *piece) {
  return report_axis_at(piece->offset < map->persistent ? &map->band : &map->y, (double)(piece->offset + piece->bytes));
}

static void draw_described(FILE *out, const ReportPlan *plan, const Map *map, const ReportPiece *piece) {
  double x = report_axis_at(&map->x, piece->lower), x2 = report_axis_at(&map->x, piece->upper);
  double y = map_top(map, piece), y2 = map_y(map, piece->offset);
  const char *thin = x2 - x < 3 || y2 - y < 3 ? " thin" : "";   // an outline would hide it
  fprintf(out, "<rect class=\"k%d%s\" x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\"><title>", piece->kind, thin,
          x, y, x2 - x, y2 - y);
  describe(out, plan, piece);
  fputs("</title></rect>\n", out);
}

static bool is_visible(const Map *map, const ReportPiece *piece) {
  double width = report_axis_at(&map->x, piece->upper) - report_axis_at(&map->x, piece->lower);
  double height = map_y(map, piece->offset) - map_top(map, piece);
  return height > 0.1 && width * height > 0.02;
}

static void draw_rest(FILE *out, const Map *map, ReportPiece *const *pieces, int n) {
  for (int k = 0; k < REPORT_KINDS; k++) {
    bool open = false;
    for (int i = 0; i < n; i++) {
      if ((int)pieces[i]->kind != k || !is_visible(map, pieces[i])) continue;
      if (!open) fprintf(out, "<path class=\"k%d\" d=\"", k);
      open = true;
      double x = report_axis_at(&map->x, pieces[i]->lower), y2 = map_y(map, pieces[i]->offset);
      fprintf(out, "M%.1f %.1fh%.1fV%.1fH%.1fz", x, y2, report_axis_at(&map->x, pieces[i]->upper) - x,
              map_top(map, pieces[i]), x);
    }
    if (open) fputs("\"/>\n", out);
  }
}

// What stands below the rest, and how large it is.
static void draw_band(FILE *out, const Map *map) {
  char size[32];
  fprintf(out,
          "<path class=\"break\" d=\"M%.1f %.1fH%.1f\"/><text class=\"note band\" x=\"%.1f\" y=\"%.1f\" "
          "text-anchor=\"middle\">parameters and optimizer state, %s, not to scale</text>\n",
          map->x.low, map->y.low, map->x.high, (map->x.low + map->x.high) / 2, (map->band.low + map->band.high) / 2 + 4,
          report_bytes(map->persistent, size, sizeof size));
}

void report_draw_arena(FILE *out, const ReportPlan *plan) {
  double bottom = TOP + HEIGHT + (plan->persistent > 0 ? BAND : 0);
  Map map = {.x = report_axis_plain(plan->n, REPORT_LEFT, REPORT_WIDTH - REPORT_RIGHT, 12),
             .y = report_axis_bytes(plan->persistent, plan->arena, TOP + HEIGHT, TOP),
             .band = report_axis_bytes(0, plan->persistent, bottom, TOP + HEIGHT),
             .persistent = plan->persistent};
  ReportPiece **sorted = allocate_array((size_t)plan->n_pieces + 1, sizeof *sorted);
  bool present[REPORT_KINDS] = {0};
  int n = 0;
  for (int i = 0; i < plan->n_pieces; i++) {
    if (plan->pieces[i].lower >= plan->pieces[i].upper || plan->pieces[i].bytes == 0) continue;
    sorted[n++] = &plan->pieces[i];
    present[plan->pieces[i].kind] = true;
  }
  qsort(sorted, (size_t)n, sizeof *sorted, by_area);
  report_draw_legend(out, present);
  fprintf(out,
          "<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"the arena, offsets over steps\" id=\"arena-map\">\n",
          REPORT_WIDTH, (int)bottom + BOTTOM);
  fprintf(out, "<rect class=\"empty\" x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"%.1f\"/>\n", map.x.low, TOP,
          map.x.high - map.x.low, bottom - TOP);
  report_axis_draw_y(out, &map.y, map.x.low, map.x.high);
  int described = n < MAX_DESCRIBED ? n : MAX_DESCRIBED, outlined = n < MAX_OUTLINED ? n : MAX_OUTLINED;
  if (plan->persistent > 0)
    fprintf(out, "<rect class=\"k%d\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%d\"/>\n", REPORT_OPTIMIZER,
            map.x.low, map.y.low, map.x.high - map.x.low, BAND);
  fputs("<g class=\"map\">\n", out);
  draw_rest(out, &map, sorted + described, outlined - described);
  for (int i = 0; i < described; i++) draw_described(out, plan, &map, sorted[i]);
  fputs("</g>\n", out);
  if (plan->persistent > 0) draw_band(out, &map);
  report_axis_draw_x(out, &map.x, bottom, "step, in the order of execution");
  fputs("</svg>\n", out);
  free(sorted);
}
