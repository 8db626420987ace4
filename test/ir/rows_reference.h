// What goes along an axis, one row at a time: a part of reference.c.
#ifndef NNC_TEST_IR_ROWS_REFERENCE_H
#define NNC_TEST_IR_ROWS_REFERENCE_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "test/ir/reference.h"

typedef struct Row {
  const double *x, *second;
  double *y;
  int64_t length, count, stride;   // elements of x, and of y, this far apart
  bool backward, last;
} Row;

static void row_accumulate(const Row *r, const char *kind) {
  for (int64_t i = 0; i < r->length; i++) {
    int64_t t = r->backward ? r->length - 1 - i : i, before = r->backward ? t + 1 : t - 1;
    double x = r->x[t * r->stride], *y = &r->y[t * r->stride];
    if (!strcmp(kind, "sum")) *y = (i ? r->y[before * r->stride] : 0) + x;
    else if (!strcmp(kind, "product")) *y = (i ? r->y[before * r->stride] : 1) * x;
    else if (!strcmp(kind, "recurrence")) *y = (i ? x * r->y[before * r->stride] : 0) + r->second[t * r->stride];
    else {
      int64_t best = i ? (int64_t)r->y[before * r->stride] : t;
      double top = r->x[best * r->stride];
      bool wins = isnan(x) || (!isnan(top) && (!strcmp(kind, "argmax") ? x >= top : x <= top));
      *y = (double)(wins ? t : best);
    }
  }
}

static bool comes_before(const Row *r, int64_t i, int64_t j) {
  double a = r->x[i * r->stride], b = r->x[j * r->stride];
  if (isnan(a) != isnan(b)) return r->backward ? isnan(a) : isnan(b);
  if (isnan(a) || a == b) return i < j;
  return r->backward ? a > b : a < b;
}

static void row_sort(const Row *r) {
  for (int64_t i = 0; i < r->length; i++) {
    int64_t place = 0;
    for (int64_t j = 0; j < r->length; j++) place += comes_before(r, j, i);
    if (place < r->count) r->y[place * r->stride] = (double)i;
  }
}

static void row_take(const Row *r) {
  for (int64_t t = 0; t < r->count; t++) {
    double i = fmin(fmax(r->second[t * r->stride], 0), (double)(r->length - 1));
    r->y[t * r->stride] = r->x[(int64_t)i * r->stride];
  }
}

static void row_scatter(const Row *r) {
  for (int64_t t = 0; t < r->length; t++) {
    int64_t i = (int64_t)r->second[t * r->stride];
    if (i >= 0 && i < r->count) r->y[i * r->stride] = (r->last ? 0 : r->y[i * r->stride]) + r->x[t * r->stride];
  }
}

// As its definition says. Numbers lie `parts` apart; those beyond the given ones are 0.
static void fourier_reference(MlirOperation operation, const Tensor *x, Tensor *y) {
  char text[16];
  const char *kind = nn_attr_str(operation, "kind", text, sizeof text, "");
  int64_t n = nn_attr_i64(operation, "length", 1), from = !strcmp(kind, "real") ? 1 : 2,
          to = !strcmp(kind, "half") ? 1 : 2;
  int64_t given = !strcmp(kind, "half") ? n / 2 + 1 : n, made = !strcmp(kind, "real") ? n / 2 + 1 : n;
  double sign = !strcmp(kind, "half") || nn_attr_bool(operation, "inverse", false) ? 1 : -1;
  int64_t rows = nn_type_elements(&x->type) / (given * from);
  double *cosine = malloc(2 * sizeof *cosine * (size_t)n), *sine = cosine + n;
  for (int64_t t = 0; t < n; t++) {
    double angle = sign * 6.283185307179586 * (double)t / (double)n;
    cosine[t] = cos(angle), sine[t] = sin(angle);
  }
  for (int64_t i = 0; i < rows * made; i++)
    for (int64_t t = 0; t < given; t++) {
      int64_t w = t * (i % made) % n;
      const double *a = x->data + (i / made * given + t) * from;
      double re = a[0], im = from == 2 ? a[1] : 0;
      y->data[i * to] += re * cosine[w] - im * sine[w];
      if (to == 2) y->data[i * to + 1] += re * sine[w] + im * cosine[w];
    }
  free(cosine);
}

// y is zero.
static void rows_reference(MlirOperation operation, NnOp op, const Tensor *const *x, Tensor *y) {
  int64_t axis = nn_attr_i64(operation, "axis", 0), outer = 1, inner = 1;
  const NnType *t = &x[0]->type;
  char text[16];
  const char *kind = nn_attr_str(operation, "kind", text, sizeof text, "recurrence");
  for (int i = 0; i < t->rank; i++)
    if (i != axis) *(i < axis ? &outer : &inner) *= t->dim[i];
  Row r = {.length = t->dim[axis],
           .count = y->type.dim[axis],
           .stride = inner,
           .backward = nn_attr_bool(operation, "reverse", false) || nn_attr_bool(operation, "descending", false),
           .last = nn_attr_bool(operation, "last", false)};
  for (int64_t i = 0; i < outer * inner; i++) {
    int64_t from = i / inner * r.length * inner + i % inner, to = i / inner * r.count * inner + i % inner;
    r.x = x[0]->data + from, r.y = y->data + to;
    if (op == NN_OP_take_along) r.second = x[1]->data + to;
    else if (op == NN_OP_recurrence || op == NN_OP_scatter_along) r.second = x[1]->data + from;
    if (op == NN_OP_argsort) row_sort(&r);
    else if (op == NN_OP_take_along) row_take(&r);
    else if (op == NN_OP_scatter_along) row_scatter(&r);
    else row_accumulate(&r, kind);
  }
}

#endif
