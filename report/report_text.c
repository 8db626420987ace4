// Text and axes of the memory report: escaping, numbers with units, round ticks.
#include <math.h>
#include <stdlib.h>

#include "report/report_internal.h"
#include "support/bytes.h"

void report_escape(FILE *out, const char *text) {
  for (; *text; text++) {
    switch (*text) {
    case '&': fputs("&amp;", out); break;
    case '<': fputs("&lt;", out); break;
    case '>': fputs("&gt;", out); break;
    case '"': fputs("&quot;", out); break;
    case '\'': fputs("&#39;", out); break;
    default:
      if ((unsigned char)*text >= 0x20 && *text != 0x7f) fputc(*text, out);
      else fputc(' ', out);   // control characters are not allowed in HTML
    }
  }
}

const char *report_bytes(int64_t bytes, char *buf, size_t size) { return print_bytes(bytes, buf, size); }

const char *report_seconds(double seconds, char *buf, size_t size) {
  static const struct {
    double scale;
    const char *unit;
  } units[] = {{1, "s"}, {1e-3, "ms"}, {1e-6, "µs"}};
  int u = seconds >= 1 ? 0 : seconds >= 1e-3 ? 1 : 2;
  double value = seconds / units[u].scale;
  snprintf(buf, size, "%.*f %s", value < 10 ? 2 : value < 100 ? 1 : 0, value, units[u].unit);
  return buf;
}

// ---------------------------------------------------------------------------------------------------------------------
// Axes

// The least of 1, 2, 5 times a power of ten that cuts `most` into at most `max_ticks` parts.
static double round_step(double most, int max_ticks) {
  if (!(most > 0)) return 1;
  double power = pow(10, floor(log10(most / max_ticks)));
  static const double factors[] = {1, 2, 2.5, 5, 10, 20};
  for (size_t i = 0; i < sizeof factors / sizeof *factors; i++)
    if (most / (factors[i] * power) <= max_ticks * (1 + 1e-9)) return factors[i] * power;
  return 20 * power;
}

ReportAxis report_axis_plain(double most, double low, double high, int max_ticks) {
  if (!(most > 0)) most = 1;
  return (ReportAxis){
      .most = most, .low = low, .high = high, .tick = round_step(most, max_ticks), .unit = 1, .unit_name = ""};
}

ReportAxis report_axis_bytes(int64_t least, int64_t most, double low, double high) {
  static const char *const names[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  ReportAxis axis = {.least = (double)least,
                     .most = most > least ? (double)most : (double)least + 1,
                     .low = low,
                     .high = high,
                     .unit = 1,
                     .unit_name = names[0]};
  for (int u = 1; u < 6 && axis.most / axis.unit >= 2048; u++) {
    axis.unit *= 1024;
    axis.unit_name = names[u];
  }
  double room = fabs(high - low) / 36;
  axis.tick = axis.unit * round_step((axis.most - axis.least) / axis.unit, room < 3 ? 3 : room > 8 ? 8 : (int)room);
  return axis;
}

double report_axis_at(const ReportAxis *axis, double value) {
  return axis->low + (axis->high - axis->low) * (value - axis->least) / (axis->most - axis->least);
}

static int tick_digits(const ReportAxis *axis) {
  double tick = axis->tick / axis->unit;
  for (int digits = 0; digits < 4; digits++)
    if (fabs(tick * pow(10, digits) - round(tick * pow(10, digits))) < 1e-6) return digits;
  return 4;
}

// "0", "200 MiB". The buffer holds any.
static const char *tick_label(const ReportAxis *axis, int i, char *buf, size_t size) {
  snprintf(buf, size, "%.*f%s%s", i > 0 ? tick_digits(axis) : 0, i * axis->tick / axis->unit,
           i > 0 && *axis->unit_name ? " " : "", i > 0 ? axis->unit_name : "");
  return buf;
}

static int first_tick(const ReportAxis *axis) { return (int)ceil(axis->least / axis->tick - 1e-9); }

void report_axis_draw_y(FILE *out, const ReportAxis *axis, double x, double x2) {
  char label[48];
  for (int i = first_tick(axis); i * axis->tick <= axis->most * (1 + 1e-9); i++) {
    double y = report_axis_at(axis, i * axis->tick);
    fprintf(out,
            "<path class=\"grid\" d=\"M%.1f %.1fH%.1f\"/><text class=\"tick\" x=\"%.1f\" y=\"%.1f\" "
            "text-anchor=\"end\">%s</text>\n",
            x, y, x2, x - 8, y + 4, tick_label(axis, i, label, sizeof label));
  }
}

void report_axis_draw_x(FILE *out, const ReportAxis *axis, double y, const char *name) {
  char label[48];
  for (int i = first_tick(axis); i * axis->tick <= axis->most * (1 + 1e-9); i++) {
    double x = report_axis_at(axis, i * axis->tick);
    fprintf(out,
            "<path class=\"axis\" d=\"M%.1f %.1fv5\"/><text class=\"tick\" x=\"%.1f\" y=\"%.1f\" "
            "text-anchor=\"middle\">%s</text>\n",
            x, y, x, y + 18, tick_label(axis, i, label, sizeof label));
  }
  fprintf(out, "<path class=\"axis\" d=\"M%.1f %.1fH%.1f\"/>\n", axis->low, y, axis->high);
  if (name)
    fprintf(out, "<text class=\"tick name\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%s</text>\n",
            (axis->low + axis->high) / 2, y + 35, name);
}

void report_draw_legend(FILE *out, const bool *present) {
  fputs("<ul class=\"legend\">", out);
  for (int k = 0; k < REPORT_KINDS; k++)
    if (present[k]) fprintf(out, "<li><i class=\"b%d\"></i>%s</li>", k, report_kind_names[k]);
  fputs("</ul>\n", out);
}
