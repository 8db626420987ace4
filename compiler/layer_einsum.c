// rearrange and einsum: layers whose argument is a pattern of axis names. A pattern becomes transposes and reshapes,
// and for einsum a matrix product in the form that moves the fewest elements; products without a summed index become a
// multiplication and a sum.
#include "compiler/layer.h"

#include <ctype.h>
#include <string.h>

#define MAX_NAMES 32
#define MAX_OPERANDS 16
#define UNIT (-1)   // the axis "1" of a rearrange pattern

// One side of a pattern: groups (axes of the tensor) of names.
typedef struct Axes {
  int n;
  int id[NN_MAX_RANK];
} Axes;
typedef struct Side {
  int n_groups;
  Axes group[NN_MAX_RANK];
} Side;

typedef struct Pattern {
  const LayerCall *c;
  int arg;   // argument that holds the pattern, for messages
  int n;     // distinct names
  const char *name[MAX_NAMES];
  int64_t size[MAX_NAMES];   // 0: not known yet
  int from[MAX_NAMES];       // einsum: operand that fixed the size
} Pattern;

static int intern(Pattern *p, const char *s, size_t length) {
  for (int i = 0; i < p->n; i++)
    if (strlen(p->name[i]) == length && memcmp(p->name[i], s, length) == 0) return i;
  if (p->n == MAX_NAMES) {
    layer_arg_error(p->c, p->arg, "more than %d axis names in a pattern", MAX_NAMES);
    return UNIT - 1;
  }
  p->name[p->n] = elaborator_format(p->c->e, "%.*s", (int)length, s);
  return p->n++;
}

// axes = { name | "1" | "(" { name } ")" }, up to `end`. Without `groups` only names.
static bool parse_side(Pattern *p, const char *s, const char *end, bool groups, Side *side) {
  bool inside = false;
  side->n_groups = 0;
  while (s < end) {
    if (isspace((unsigned char)*s)) {
      s++;
      continue;
    }
    if (groups && *s == (inside ? ')' : '(')) {
      if (!inside) {
        if (side->n_groups == NN_MAX_RANK) return layer_arg_error(p->c, p->arg, "more than %d axes", NN_MAX_RANK);
        side->group[side->n_groups++].n = 0;
      }
      inside = !inside;
      s++;
      continue;
    }
    size_t length = 0;
    while (s + length < end && (isalnum((unsigned char)s[length]) || s[length] == '_')) length++;
    if (length == 0)
      return layer_arg_error(p->c, p->arg, "unexpected '%c' in the pattern", isprint((unsigned char)*s) ? *s : '?');
    bool unit = groups && length == 1 && *s == '1';
    if (!unit && isdigit((unsigned char)*s))
      return layer_arg_error(p->c, p->arg, "'%.*s' is not an axis name", (int)length, s);
    int id = unit ? UNIT : intern(p, s, length);
    if (id < UNIT) return false;
    if (!inside) {
      if (side->n_groups == NN_MAX_RANK) return layer_arg_error(p->c, p->arg, "more than %d axes", NN_MAX_RANK);
      side->group[side->n_groups++].n = 0;
    }
    Axes *g = &side->group[side->n_groups - 1];
    if (g->n == NN_MAX_RANK) return layer_arg_error(p->c, p->arg, "more than %d axes", NN_MAX_RANK);
    g->id[g->n++] = id;
    s += length;
  }
  return !inside || layer_arg_error(p->c, p->arg, "a '(' of the pattern is not closed");
}

// All names of a side in order; each may appear once.
static bool flat_names(Pattern *p, const Side *side, const char *where, Axes *out) {
  unsigned seen = 0;
  out->n = 0;
  for (int g = 0; g < side->n_groups; g++) {
    for (int k = 0; k < side->group[g].n; k++) {
      int id = side->group[g].id[k];
      if (id == UNIT) continue;
      if (seen & (1u << id)) return layer_arg_error(p->c, p->arg, "axis '%s' appears twice in %s", p->name[id], where);
      if (out->n == NN_MAX_RANK) return layer_arg_error(p->c, p->arg, "more than %d axes in %s", NN_MAX_RANK, where);
      seen |= 1u << id;
      out->id[out->n++] = id;
    }
  }
  return true;
}

static unsigned mask_of(const Axes *a) {
  unsigned mask = 0;
  for (int i = 0; i < a->n; i++) mask |= 1u << a->id[i];
  return mask;
}

static const char *find_arrow(const Pattern *p, const char *text) {
  const char *arrow = strstr(text, "->");
  if (!arrow) {
    layer_arg_error(p->c, p->arg, "the pattern has no '->'");
    elaborator_hint(p->c->e, "for example \"b t (h d) -> b h t d\"");
  }
  return arrow;
}

static MlirValue reshape_to(const LayerCall *c, MlirValue x, int rank, const int64_t *dim) {
  NnType from = nn_value_type(x), to = nn_type(from.dtype, rank, dim);
  return nn_type_equal(&from, &to) ? x : nn_reshape(c->b, x, rank, dim);
}

// x has axes `from`; the result has the same axes in the order of `to`.
static MlirValue permute_to(const LayerCall *c, MlirValue x, const Axes *from, const Axes *to) {
  int64_t perm[NN_MAX_RANK];
  bool identity = true;
  for (int i = 0; i < to->n; i++)
    for (int k = 0; k < from->n; k++)
      if (from->id[k] == to->id[i]) {
        perm[i] = k;
        identity = identity && k == i;
      }
  return identity ? x : nn_transpose(c->b, x, perm);
}

// --- rearrange

static bool rearrange_sizes(Pattern *p, const NnType *t, const Side *left) {
  const LayerCall *c = p->c;
  for (int k = 0; k < c->n_extra; k++) {
    const CallArg *a = &c->extra[k];
    if (!a->name) return elaborator_error(c->e, a->pos, "rearrange: sizes are given by name, as in h=8");
    if (a->value.kind != VALUE_INT || a->value.i < 1)
      return elaborator_error(c->e, a->pos, "rearrange: the size of '%s' must be a positive integer, found %s", a->name,
                              value_describe(c->e, a->value));
    int id = 0;
    while (id < p->n && strcmp(p->name[id], a->name) != 0) id++;
    if (id == p->n) return elaborator_error(c->e, a->pos, "rearrange: the pattern has no axis '%s'", a->name);
    p->size[id] = a->value.i;
  }
  for (int g = 0; g < left->n_groups; g++) {
    int64_t rest = t->dim[g];
    int unknown = UNIT;
    for (int k = 0; k < left->group[g].n; k++) {
      int id = left->group[g].id[k];
      if (id == UNIT) continue;
      if (p->size[id] == 0 && unknown != UNIT) {
        layer_arg_error(c, p->arg, "the sizes of '%s' and '%s' are both unknown", p->name[unknown], p->name[id]);
        elaborator_hint(c->e, "give one of them by name: %s=…", p->name[unknown]);
        return false;
      }
      if (p->size[id] == 0) unknown = id;
      else if (rest % p->size[id])
        return layer_arg_error(c, p->arg, "'%s' = %lld does not divide axis %d of %s", p->name[id],
                               (long long)p->size[id], g, value_describe(c->e, c->arg[0]));
      else rest /= p->size[id];
    }
    if (unknown != UNIT) p->size[unknown] = rest;
    else if (rest != 1)
      return layer_arg_error(c, p->arg, "the named sizes do not multiply to axis %d of %s", g,
                             value_describe(c->e, c->arg[0]));
  }
  return true;
}

bool layer_rearrange(LayerCall *c, Value *result) {
  Pattern p = {.c = c, .arg = 1};
  Side left, right;
  Axes from, to;
  MlirValue x = layer_tensor(c, 0);
  NnType t = nn_value_type(x);
  const char *text = layer_string(c, 1), *arrow = find_arrow(&p, text);
  if (!arrow || !parse_side(&p, text, arrow, true, &left) ||
      !parse_side(&p, arrow + 2, text + strlen(text), true, &right))
    return false;
  if (left.n_groups != t.rank)
    return layer_arg_error(c, 1, "the pattern has %d axes, the tensor is %s", left.n_groups,
                           value_describe(c->e, c->arg[0]));
  if (!flat_names(&p, &left, "the left side", &from) || !flat_names(&p, &right, "the right side", &to)) return false;
  unsigned differ = mask_of(&from) ^ mask_of(&to);
  for (int id = 0; id < p.n; id++)
    if (differ & (1u << id)) return layer_arg_error(c, 1, "axis '%s' is on one side only", p.name[id]);
  if (!rearrange_sizes(&p, &t, &left)) return false;
  int64_t dim[NN_MAX_RANK];
  for (int i = 0; i < from.n; i++) dim[i] = p.size[from.id[i]];
  x = permute_to(c, reshape_to(c, x, from.n, dim), &from, &to);
  for (int g = 0; g < right.n_groups; g++) {
    dim[g] = 1;
    for (int k = 0; k < right.group[g].n; k++)
      if (right.group[g].id[k] != UNIT) dim[g] *= p.size[right.group[g].id[k]];
  }
  return layer_return(result, reshape_to(c, x, right.n_groups, dim));
}

// --- einsum

typedef struct Operand {
  MlirValue value;
  Axes axes;
} Operand;

static int64_t product(const Pattern *p, const Axes *a) {
  int64_t n = 1;
  for (int i = 0; i < a->n; i++) n *= p->size[a->id[i]];
  return n;
}

static Axes select_axes(const Axes *from, unsigned mask) {
  Axes out = {0};
  for (int i = 0; i < from->n; i++)
    if (mask & (1u << from->id[i])) out.id[out.n++] = from->id[i];
  return out;
}

static bool same_order(const Axes *x, const Axes *y) {
  return x->n == y->n && memcmp(x->id, y->id, sizeof x->id[0] * (size_t)x->n) == 0;
}

static void append(Axes *to, const Axes *more) {
  for (int i = 0; i < more->n; i++) to->id[to->n++] = more->id[i];
}

// Sums out the axes of x that are not in `kept`.
static Operand sum_out(const LayerCall *c, Operand x, unsigned kept) {
  int64_t axes[NN_MAX_RANK];
  int n = 0;
  for (int i = 0; i < x.axes.n; i++)
    if (!(kept & (1u << x.axes.id[i]))) axes[n++] = i;
  if (n == 0) return x;
  return (Operand){nn_reduce(c->b, NN_OP_reduce_sum, x.value, n, axes), select_axes(&x.axes, kept)};
}

// x as a tensor over `all`, which holds its axes.
static MlirValue spread(const Pattern *p, Operand x, const Axes *all) {
  Axes order = select_axes(all, mask_of(&x.axes));
  NnType to = nn_value_type(x.value);
  int64_t dims[NN_MAX_RANK];
  int n = 0;
  to.rank = all->n;
  for (int i = 0; i < all->n; i++) {
    to.dim[i] = p->size[all->id[i]];
    if (n < order.n && order.id[n] == all->id[i]) dims[n++] = i;
  }
  MlirValue v = permute_to(p->c, x.value, &x.axes, &order);
  return order.n == all->n ? v : nn_broadcast(p->c->b, v, to, dims);
}

static bool multiply_and_sum(const Pattern *p, Operand x, Operand y, const Axes *out, Operand *result) {
  Axes all = *out, summed = select_axes(&x.axes, mask_of(&x.axes) & ~mask_of(out));
  int64_t axes[NN_MAX_RANK];
  if (all.n + summed.n > NN_MAX_RANK)
    return layer_arg_error(p->c, p->arg, "an intermediate product has more than %d axes", NN_MAX_RANK);
  append(&all, &summed);
  NnType t = nn_value_type(x.value);
  t.rank = all.n;
  for (int i = 0; i < all.n; i++) t.dim[i] = p->size[all.id[i]];
  if (!nn_type_is_representable(&t))
    return layer_arg_error(p->c, p->arg, "an intermediate product has more than 2^40 elements");
  MlirValue v = nn_binary(p->c->b, NN_OP_mul, spread(p, x, &all), spread(p, y, &all));
  for (int i = 0; i < summed.n; i++) axes[i] = out->n + i;
  if (summed.n) v = nn_reduce(p->c->b, NN_OP_reduce_sum, v, summed.n, axes);
  *result = (Operand){v, *out};
  return true;
}

// One way of writing a contraction as a product: operands in layouts [batch, m, k] and [batch, k, n], either with its
// last two swapped.
typedef struct Form {
  bool swapped, transpose_x, transpose_y;
  Axes batch, m, n, k;
  Axes x, y, out;   // full layouts
  int64_t moved;    // elements that transposes move
} Form;

static Axes layout_of(const Axes *batch, const Axes *rows, const Axes *columns) {
  Axes out = *batch;
  append(&out, rows);
  append(&out, columns);
  return out;
}

static void cost_form(const Pattern *p, const Operand *x, const Operand *y, const Axes *out, Form *f) {
  f->x = f->transpose_x ? layout_of(&f->batch, &f->k, &f->m) : layout_of(&f->batch, &f->m, &f->k);
  f->y = f->transpose_y ? layout_of(&f->batch, &f->n, &f->k) : layout_of(&f->batch, &f->k, &f->n);
  f->out = layout_of(&f->batch, &f->m, &f->n);
  f->moved = (same_order(&f->x, &x->axes) ? 0 : product(p, &f->x)) +
             (same_order(&f->y, &y->axes) ? 0 : product(p, &f->y)) +
             (same_order(&f->out, out) ? 0 : product(p, &f->out));
}

// Tries every form; the first of the cheapest wins, so that the written order is kept where it costs nothing.
static Form best_form(const Pattern *p, const Operand *a, const Operand *b, const Axes *out) {
  Form best = {.moved = INT64_MAX};
  unsigned in_a = mask_of(&a->axes), in_b = mask_of(&b->axes), kept = mask_of(out);
  for (int choice = 0; choice < 256; choice++) {
    bool swapped = choice & 128;
    const Operand *x = swapped ? b : a, *y = swapped ? a : b;
    unsigned in_x = swapped ? in_b : in_a, in_y = swapped ? in_a : in_b;
    const Axes *batch_order = (choice & 4) ? &y->axes : (choice & 8) ? out : &x->axes;
    Form f = {.swapped = swapped, .transpose_x = choice & 1, .transpose_y = choice & 2};
    f.batch = select_axes(batch_order, in_x & in_y & kept);
    f.m = select_axes((choice & 16) ? out : &x->axes, in_x & ~in_y);
    f.n = select_axes((choice & 32) ? out : &y->axes, in_y & ~in_x);
    f.k = select_axes((choice & 64) ? &y->axes : &x->axes, in_x & in_y & ~kept);
    cost_form(p, x, y, out, &f);
    if (f.moved < best.moved) best = f;
  }
  return best;
}

// Joins the rows and the columns of a permuted operand to one axis each.
static MlirValue joined(const Pattern *p, MlirValue v, const Axes *batch, const Axes *rows, const Axes *columns) {
  int64_t dim[NN_MAX_RANK + 2];
  int n = 0;
  for (int i = 0; i < batch->n; i++) dim[n++] = p->size[batch->id[i]];
  dim[n++] = product(p, rows);
  dim[n++] = product(p, columns);
  return reshape_to(p->c, v, n, dim);
}

static bool contract(const Pattern *p, Operand a, Operand b, const Axes *out, Operand *result) {
  Form f = best_form(p, &a, &b, out);
  Operand *x = f.swapped ? &b : &a, *y = f.swapped ? &a : &b;
  if (f.batch.n > NN_MAX_RANK - 2) return multiply_and_sum(p, a, b, out, result);
  MlirValue vx = permute_to(p->c, x->value, &x->axes, &f.x), vy = permute_to(p->c, y->value, &y->axes, &f.y);
  // The rows of x may stay several axes beside a y of rank 2.
  bool rows_stay = f.batch.n == 0 && !f.transpose_x && f.m.n > 1 && f.k.n == 1;
  if (!rows_stay) vx = f.transpose_x ? joined(p, vx, &f.batch, &f.k, &f.m) : joined(p, vx, &f.batch, &f.m, &f.k);
  vy = f.transpose_y ? joined(p, vy, &f.batch, &f.n, &f.k) : joined(p, vy, &f.batch, &f.k, &f.n);
  MlirOperation op = layer_build(p->c, NN_OP_matmul, 2, (MlirValue[]){vx, vy}, 2,
                                 (NnAttr[]){NN_BOOL("transpose_a", f.transpose_x),
                                            NN_BOOL("transpose_b", f.transpose_y)},
                                 NULL);
  if (mlirOperationIsNull(op)) return false;
  int64_t dim[NN_MAX_RANK];
  for (int i = 0; i < f.out.n; i++) dim[i] = p->size[f.out.id[i]];
  MlirValue v = reshape_to(p->c, mlirOperationGetResult(op, 0), f.out.n, dim);
  *result = (Operand){permute_to(p->c, v, &f.out, out), *out};
  return true;
}

// kept: names that the result or a later operand needs. out: the order of the result, or NULL when free.
static bool einsum_pair(const Pattern *p, Operand x, Operand y, unsigned kept, const Axes *out, Operand *result) {
  x = sum_out(p->c, x, kept | mask_of(&y.axes));
  y = sum_out(p->c, y, kept | mask_of(&x.axes));
  unsigned in_x = mask_of(&x.axes), in_y = mask_of(&y.axes);
  Axes order = {0};
  if (out) {
    order = *out;
  } else {
    Axes own = select_axes(&x.axes, kept), other = select_axes(&y.axes, kept & ~in_x);
    if (own.n + other.n > NN_MAX_RANK)
      return layer_arg_error(p->c, p->arg, "an intermediate product has more than %d axes", NN_MAX_RANK);
    order = own;
    append(&order, &other);
  }
  NnType t = nn_value_type(x.value);
  t.rank = order.n;
  for (int i = 0; i < order.n; i++) t.dim[i] = p->size[order.id[i]];
  if (!nn_type_is_representable(&t)) return layer_arg_error(p->c, p->arg, "the product has more than 2^40 elements");
  bool contracts = (in_x & in_y & ~kept) != 0, has_free = ((in_x ^ in_y) & kept) != 0;
  if (contracts && has_free) return contract(p, x, y, &order, result);
  return multiply_and_sum(p, x, y, &order, result);
}

// The diagonal of axes a < b of x: b disappears.
static MlirValue diagonal(NnBuilder *b, MlirValue x, int64_t first, int64_t second) {
  NnType t = nn_value_type(x), index = t;
  index.dtype = NN_I32;
  MlirValue same = nn_compare(b, "eq", nn_iota(b, index, first), nn_iota(b, index, second));
  return nn_reduce(b, NN_OP_reduce_sum, nn_select(b, same, x, nn_constant(b, t, 0)), 1, &second);
}

// A name that a tensor has twice means its diagonal there; the second is left out of the side.
static bool take_diagonals(const Pattern *p, int k, Side *side, Operand *operand) {
  for (int b = 1; b < side->n_groups; b++)
    for (int a = 0; a < b; a++) {
      NnType t = nn_value_type(operand->value);
      if (side->group[a].id[0] != side->group[b].id[0] || t.rank != side->n_groups) continue;
      if (t.dim[a] != t.dim[b])
        return elaborator_error(p->c->e, p->c->extra[k].pos, "einsum: '%s' is %lld and %lld in tensor %d",
                                p->name[side->group[a].id[0]], (long long)t.dim[a], (long long)t.dim[b], k + 1);
      operand->value = diagonal(p->c->b, operand->value, a, b);
      side->n_groups--;
      for (int i = b; i < side->n_groups; i++) side->group[i] = side->group[i + 1];
      b--;
      break;
    }
  return true;
}

// Names "_2 _1" for the axes that "..." stands for, counted from the right, so that those of several tensors are
// aligned.
static const char *rest_names(const LayerCall *c, int n) {
  const char *names = " ";
  for (; n > 0; n--) names = elaborator_format(c->e, "%s_%d ", names, n);
  return names;
}

static int count_names(const char *s, const char *end) {
  int n = 0;
  for (bool inside = false; s < end; s++) {
    bool letter = isalnum((unsigned char)*s) || *s == '_';
    n += letter && !inside;
    inside = letter;
  }
  return n;
}

// The pattern with names for "..."; NULL after reporting.
static const char *name_rests(const LayerCall *c, const char *text) {
  const char *out = "";
  int k = 0, most = 0;
  for (const char *dots; (dots = strstr(text, "...")); text = dots + 3) {
    const char *end = text + strcspn(dots, ",") + (dots - text), *arrow = strstr(text, "->"), *begin = text;
    bool result = !arrow || arrow < dots;
    for (const char *s = text; s < dots && !result; s++)
      if (*s == ',') k++, begin = s + 1;
    if (!result && arrow < end) end = arrow;
    if (!result && k >= c->n_extra) break;   // told when the tensors are bound
    int rest = most;
    if (!result) {
      rest = nn_value_type(c->extra[k].value.tensor).rank - count_names(begin, end);
      if (rest < 0) rest = 0;
      if (rest > most) most = rest;
    }
    out = elaborator_format(c->e, "%s%.*s%s", out, (int)(dots - text), text, rest_names(c, rest));
  }
  return elaborator_format(c->e, "%s%s", out, text);
}

// The pattern with its result, which where it is not given has the axes of "..." and, sorted, the names that stand
// there once, as NumPy has it. NULL after reporting.
static const char *with_result(Pattern *p, const char *text) {
  int order[MAX_NAMES], count[MAX_NAMES] = {0}, n = 0;
  Pattern names = {.c = p->c, .arg = p->arg};
  if (strstr(text, "->")) return text;
  for (const char *s = text; *s; s++) {
    size_t length = 0;
    while (isalnum((unsigned char)s[length]) || s[length] == '_') length++;
    if (!length) continue;
    int id = intern(&names, s, length), at = n;
    if (id < 0) return NULL;
    s += length - 1;
    if (count[id]++) continue;
    for (n++; at > 0 && strcmp(names.name[order[at - 1]], names.name[id]) > 0; at--) order[at] = order[at - 1];
    order[at] = id;
  }
  const char *out = elaborator_format(p->c->e, "%s ->%s", text, strstr(text, "...") ? " ..." : "");
  for (int i = 0; i < n; i++)
    if (count[order[i]] == 1) out = elaborator_format(p->c->e, "%s %s", out, names.name[order[i]]);
  return out;
}

static bool is_rest(const char *name) { return name[0] == '_' && isdigit((unsigned char)name[1]); }

// An axis of "..." that is 1 in one tensor and more in another is left out of the first.
static void leave_out_ones(const Pattern *p, Operand *x) {
  NnType t = nn_value_type(x->value);
  Axes kept = {0};
  int64_t dim[NN_MAX_RANK];
  for (int i = 0; i < x->axes.n; i++) {
    if (t.dim[i] == 1 && p->size[x->axes.id[i]] > 1) continue;
    dim[kept.n] = t.dim[i];
    kept.id[kept.n++] = x->axes.id[i];
  }
  *x = (Operand){reshape_to(p->c, x->value, kept.n, dim), kept};
}

// The size of axis i of operand k, which one before may have fixed; sizes of 1 of "..." give way.
static bool bind_size(Pattern *p, const Operand *operand, int k, int i) {
  int id = operand[k].axes.id[i];
  bool rest = is_rest(p->name[id]);
  int64_t size = nn_value_type(operand[k].value).dim[i];
  if (p->size[id] == 0 || (rest && p->size[id] == 1)) {
    p->size[id] = size;
    p->from[id] = k;
  }
  if (p->size[id] == size || (rest && size == 1)) return true;
  return elaborator_error(p->c->e, p->c->extra[k].pos, "einsum: '%s' is %lld in tensor %d and %lld in tensor %d",
                          rest ? "..." : p->name[id], (long long)p->size[id], p->from[id] + 1, (long long)size, k + 1);
}

// Splits "a b, b c -> a c" at its commas and binds each name to the size of the operand's axis.
static bool bind_operands(Pattern *p, const char *text, const char *arrow, Operand *operand) {
  const LayerCall *c = p->c;
  const char *s = text;
  for (int k = 0;; k++) {
    const char *comma = memchr(s, ',', (size_t)(arrow - s)), *end = comma ? comma : arrow;
    if (k == c->n_extra) return layer_arg_error(c, 0, "the pattern names more tensors than the %d given", c->n_extra);
    Side side;
    if (!parse_side(p, s, end, false, &side) || !take_diagonals(p, k, &side, &operand[k]) ||
        !flat_names(p, &side, "one tensor", &operand[k].axes))
      return false;
    NnType t = nn_value_type(operand[k].value);
    if (t.rank != operand[k].axes.n)
      return elaborator_error(c->e, c->extra[k].pos, "einsum: the pattern gives tensor %d %d axes, found %s", k + 1,
                              operand[k].axes.n, value_describe(c->e, c->extra[k].value));
    for (int i = 0; i < t.rank; i++)
      if (!bind_size(p, operand, k, i)) return false;
    if (!comma)
      return k + 1 == c->n_extra ||
             layer_arg_error(c, 0, "the pattern names %d tensors, %d are given", k + 1, c->n_extra);
    s = comma + 1;
  }
}

static bool collect_operands(LayerCall *c, Operand *operand) {
  NnDtype dtype = elaborator_dtype(c->e);
  bool any = false;
  if (c->n_extra == 0 || c->n_extra > MAX_OPERANDS)
    return layer_error(c, "needs between 1 and %d tensors", MAX_OPERANDS);
  for (int k = 0; k < c->n_extra; k++) {
    const CallArg *a = &c->extra[k];
    if (a->name) return elaborator_error(c->e, a->pos, "einsum has no argument '%s'", a->name);
    if (a->value.kind != VALUE_TENSOR)
      return elaborator_error(c->e, a->pos, "einsum: expected a tensor, found %s", value_describe(c->e, a->value));
    NnDtype given = nn_value_dtype(a->value.tensor);
    if (!nn_dtype_is_float(given)) continue;
    dtype = any ? nn_dtype_common(dtype, given) : given;
    any = true;
  }
  for (int k = 0; k < c->n_extra; k++) operand[k].value = nn_cast(c->b, c->extra[k].value.tensor, dtype);
  return true;
}

bool layer_einsum(LayerCall *c, Value *result) {
  Pattern p = {.c = c, .arg = 0};
  Operand operand[MAX_OPERANDS];
  Side right;
  Axes out;
  const char *text = with_result(&p, layer_string(c, 0));
  if (!text || !collect_operands(c, operand)) return false;
  text = name_rests(c, text);
  const char *arrow = strstr(text, "->");
  if (!bind_operands(&p, text, arrow, operand)) return false;
  int known = p.n, n = c->n_extra;
  for (int k = 0; k < n; k++) leave_out_ones(&p, &operand[k]);
  if (!parse_side(&p, arrow + 2, text + strlen(text), false, &right) || !flat_names(&p, &right, "the result", &out))
    return false;
  if (p.n > known) return layer_arg_error(c, 0, "axis '%s' of the result is in no tensor", p.name[known]);
  unsigned later[MAX_OPERANDS];   // names that tensors after k or the result use
  later[n - 1] = mask_of(&out);
  for (int k = n - 1; k > 0; k--) later[k - 1] = later[k] | mask_of(&operand[k].axes);
  Operand sum = sum_out(c, operand[0], later[0]);
  for (int k = 1; k < n; k++)
    if (!einsum_pair(&p, sum, operand[k], later[k], k == n - 1 ? &out : NULL, &sum)) return false;
  return layer_return(result, permute_to(c, sum.value, &sum.axes, &out));
}
