// What stands behind the reader of a `data` line: |> flip |> crop(padding=4) |> normalise(mean=0.5, std=0.25). flip and
// crop move the images of the training records at random; normalise changes the numbers of every record, also in
// evaluation and prediction. The runtime does both (augment.c).
#include <string.h>

#include "compiler/elaborate_internal.h"

typedef enum TransformKind { FLIP, CROP, NORMALISE, TRANSFORMS } TransformKind;
static const struct {
  const char *name, *use;
} transforms[TRANSFORMS] = {
    {"flip", "flip(p=0.5)"},
    {"crop", "crop(padding=4)"},
    {"normalise", "normalise(mean=0.5, std=0.25), or lists with a number per channel"},
};

static bool kind_of(Elaborator *e, const AstExpr *x, TransformKind *out) {
  NameSearch nearest = name_search(x->call.callee);
  for (int i = 0; i < TRANSFORMS; i++) {
    if (strcmp(transforms[i].name, x->call.callee) == 0) {
      *out = (TransformKind)i;
      return true;
    }
    name_consider(&nearest, transforms[i].name);
  }
  if (strcmp(x->call.callee, "normalize") == 0) nearest.best = "normalise";
  elaborator_error(e, x->pos, "unknown transformation '%s'", x->call.callee);
  if (nearest.best) elaborator_hint(e, "did you mean '%s'?", nearest.best);
  else
    elaborator_hint(e, "behind a reader stand flip, crop and normalise; other changes of the data are computed in "
                       "train or in the model");
  return false;
}

// The call of a transformation on this line; NULL when there is none. Errors are left to transforms_read.
static const AstExpr *find(const AstStmt *s, TransformKind kind) {
  const AstExpr *reader = data_reader(s);
  for (const AstExpr *x = s->setting.args[0].value; x != reader; x = x->call.args[0].value)
    if (strcmp(x->call.callee, transforms[kind].name) == 0) return x;
  return NULL;
}

// The names that a transformation is for: those among its arguments, else the first of the line.
static bool is_for(const AstStmt *s, const AstExpr *x, const char *name) {
  bool any = false;
  for (int i = 1; i < x->call.n_args; i++) {
    const AstArg *a = &x->call.args[i];
    if (a->name.text || a->value->kind != AST_NAME) continue;
    any = true;
    if (strcmp(a->value->text, name) == 0) return true;
  }
  return !any && strcmp(s->setting.targets[0].text, name) == 0;
}

// Whether argument i, by name or the name of an input, stands before it too.
static bool is_given_before(const AstExpr *x, int i) {
  const AstArg *a = &x->call.args[i];
  bool named = a->name.text != NULL;
  for (int k = 1; k < i; k++) {
    const AstArg *b = &x->call.args[k];
    bool alike = named == (b->name.text != NULL) &&
                 (named || (a->value->kind == AST_NAME && b->value->kind == AST_NAME));
    if (alike && strcmp(named ? a->name.text : a->value->text, named ? b->name.text : b->value->text) == 0) return true;
  }
  return false;
}

static bool names_known(Elaborator *e, const AstStmt *s, const AstExpr *x) {
  for (int i = 1; i < x->call.n_args; i++) {
    const AstArg *a = &x->call.args[i];
    bool found = false;
    if (is_given_before(x, i))
      return elaborator_error(e, a->name.text ? a->name.pos : a->value->pos, "'%s' is given twice to %s",
                              a->name.text ? a->name.text : a->value->text, x->call.callee);
    if (a->name.text) continue;
    NameSearch nearest = name_search(a->value->kind == AST_NAME ? a->value->text : "");
    for (int k = 0; a->value->kind == AST_NAME && k < s->setting.n_targets; k++) {
      found = found || strcmp(a->value->text, s->setting.targets[k].text) == 0;
      name_consider(&nearest, s->setting.targets[k].text);
    }
    if (found) continue;
    elaborator_error(e, a->value->pos, "%s: expected a name of this line", x->call.callee);
    if (nearest.best) elaborator_hint(e, "did you mean '%s'?", nearest.best);
    else elaborator_hint(e, "%s", transforms[find(s, CROP) == x ? CROP : find(s, FLIP) == x ? FLIP : NORMALISE].use);
    return false;
  }
  return true;
}

// The value of the argument `name`, which must be the only one by name unless there is another; found false: not given.
static bool argument(Elaborator *e, const AstExpr *x, const char *name, CallArg *out, bool *found) {
  *found = false;
  for (int i = 1; i < x->call.n_args; i++) {
    if (!x->call.args[i].name.text || strcmp(x->call.args[i].name.text, name) != 0) continue;
    *found = true;
    return eval_args(e, 1, &x->call.args[i], out);
  }
  return true;
}

static bool arguments_known(Elaborator *e, const AstExpr *x, TransformKind kind, const char *first,
                            const char *second) {
  for (int i = 1; i < x->call.n_args; i++) {
    const AstName *name = &x->call.args[i].name;
    if (!name->text || strcmp(name->text, first) == 0 || strcmp(name->text, second) == 0) continue;
    elaborator_error(e, name->pos, "%s has no argument '%s'", x->call.callee, name->text);
    elaborator_hint(e, "%s", transforms[kind].use);
    return false;
  }
  return true;
}

// --- Staging

// A number or a list of numbers as text; n: how many.
static bool numbers(Elaborator *e, const AstExpr *x, const char *name, bool positive, const char **text, int *n,
                    AstPos *pos) {
  CallArg arg;
  bool found;
  if (!argument(e, x, name, &arg, &found)) return false;
  if (!found) {
    elaborator_error(e, x->pos, "normalise needs '%s'", name);
    elaborator_hint(e, "%s", transforms[NORMALISE].use);
    return false;
  }
  const Value *items = arg.value.kind == VALUE_LIST ? arg.value.list.items : &arg.value;
  *n = arg.value.kind == VALUE_LIST ? arg.value.list.n : 1;
  *text = "";
  *pos = arg.pos;
  for (int i = 0; i < *n; i++) {
    double v;
    if (!value_as_number(&items[i], &v) || (positive && !(v > 0)))
      return elaborator_error(e, arg.pos, "normalise: '%s' must be %s number or a list of them, found %s", name,
                              positive ? "a positive" : "a", value_describe(e, items[i]));
    *text = elaborator_format(e, "%s%s%.17g", *text, i ? ", " : "", v);
  }
  return *n > 0 || elaborator_error(e, arg.pos, "normalise: '%s' is an empty list", name);
}

static const char *repeated(Elaborator *e, const char *text, int n) {
  const char *all = text;
  for (int i = 1; i < n; i++) all = elaborator_format(e, "%s, %s", all, text);
  return all;
}

bool transforms_normalise(Elaborator *e, const AstStmt *s, DataInput *input) {
  const AstExpr *x = find(s, NORMALISE);
  if (!x || !is_for(s, x, input->name)) return true;
  Staging *out = elaborator_alloc(e, sizeof *out);
  int n_mean, n_std;
  AstPos pos;
  if (!arguments_known(e, x, NORMALISE, "mean", "std") || !numbers(e, x, "mean", false, &out->mean, &n_mean, &pos) ||
      !numbers(e, x, "std", true, &out->std, &n_std, &pos))
    return false;
  if (n_mean != n_std && n_mean != 1 && n_std != 1)
    return elaborator_error(e, pos, "normalise: %d means and %d standard deviations", n_mean, n_std);
  out->channels = n_mean > n_std ? n_mean : n_std;
  if (n_mean < out->channels) out->mean = repeated(e, out->mean, out->channels);
  if (n_std < out->channels) out->std = repeated(e, out->std, out->channels);
  input->staging = out;
  return true;
}

static bool check_normalised(Elaborator *e, const AstExpr *x, const DataInput *input) {
  char type[256];
  const Staging *normalise = input->staging;
  nn_type_format(&input->type, type, sizeof type);
  if (!nn_dtype_is_float(input->type.dtype))
    return elaborator_error(e, x->pos, "normalise makes numbers with a fraction, '%s' is %s", input->name, type);
  if (normalise->channels == 1 || (input->type.rank > 1 && input->type.dim[1] == normalise->channels)) return true;
  return elaborator_error(e, x->pos, "normalise has %d numbers, '%s' is %s: its channels are axis 1",
                          normalise->channels, input->name, type);
}

// --- Flip and crop

static bool check_image(Elaborator *e, const AstExpr *x, const DataInput *input, int64_t padding) {
  char type[256];
  int rank = input->type.rank;
  nn_type_format(&input->type, type, sizeof type);
  if (rank < 3 || input->whole) {
    elaborator_error(e, x->pos, "%s moves images, '%s' is %s%s", x->call.callee, input->name, type,
                     input->whole ? ", read whole" : "");
    elaborator_hint(e, "an image has the axes [records, channels, height, width] or [records, height, width]");
    return false;
  }
  if (padding <= input->type.dim[rank - 2] && padding <= input->type.dim[rank - 1]) return true;
  return elaborator_error(e, x->pos, "crop: padding %lld is more than the image '%s', %s, has", (long long)padding,
                          input->name, type);
}

// The amount of flip or crop; NULL text of name when x is not there.
static bool amount(Elaborator *e, const AstExpr *x, TransformKind kind, double *out) {
  const char *name = kind == FLIP ? "p" : "padding";
  CallArg arg;
  bool found;
  *out = kind == FLIP ? 0.5 : 0;
  if (!arguments_known(e, x, kind, name, name) || !argument(e, x, name, &arg, &found)) return false;
  if (!found && kind == FLIP) return true;
  if (!found) {
    elaborator_error(e, x->pos, "crop needs 'padding'");
    elaborator_hint(e, "%s", transforms[CROP].use);
    return false;
  }
  bool fits = value_as_number(&arg.value, out) &&
              (kind == FLIP ? *out >= 0 && *out <= 1 : arg.value.kind == VALUE_INT && *out >= 1);
  return fits || elaborator_error(e, arg.pos, "%s: '%s' must be %s, found %s", x->call.callee, name,
                                  kind == FLIP ? "a chance between 0 and 1" : "a number of pixels, at least 1",
                                  value_describe(e, arg.value));
}

static bool check_line(Elaborator *e, const AstStmt *s) {
  bool ok = true, seen[TRANSFORMS] = {false};
  const AstExpr *reader = data_reader(s);
  for (const AstExpr *x = s->setting.args[0].value; x != reader; x = x->call.args[0].value) {
    TransformKind kind;
    if (!kind_of(e, x, &kind) || !names_known(e, s, x)) ok = false;
    else if (seen[kind]) ok = elaborator_error(e, x->pos, "'%s' is given twice", x->call.callee);
    else seen[kind] = true;
  }
  if (ok && reader != s->setting.args[0].value && strcmp(s->setting.keyword.text, "eval") == 0) {
    elaborator_error(e, s->setting.args[0].value->pos, "transformations stand on the data line");
    elaborator_hint(e, "its normalise holds for this line too; flip and crop are for training");
    return false;
  }
  return ok;
}

bool transforms_read(Elaborator *e, const AstStmt *s, int n, const DataInput *inputs, Transforms *out) {
  memset(out, 0, sizeof *out);
  if (!check_line(e, s)) return false;
  const AstExpr *flip = find(s, FLIP), *crop = find(s, CROP), *normalise = find(s, NORMALISE);
  double padding = 0;
  if ((flip && !amount(e, flip, FLIP, &out->flip)) || (crop && !amount(e, crop, CROP, &padding))) return false;
  out->crop = (int64_t)padding;
  out->flipped = elaborator_alloc(e, sizeof *out->flipped * (size_t)(n + 1));
  out->cropped = elaborator_alloc(e, sizeof *out->cropped * (size_t)(n + 1));
  bool ok = true;
  for (int i = 0; i < n; i++) {
    bool here = false;
    for (int k = 0; k < s->setting.n_targets; k++)
      here = here || strcmp(s->setting.targets[k].text, inputs[i].name) == 0;
    if (!here) continue;
    if (normalise && inputs[i].staging && inputs[i].staging->channels)
      ok = check_normalised(e, normalise, &inputs[i]) && ok;
    if (flip && is_for(s, flip, inputs[i].name))
      ok = check_image(e, flip, &inputs[i], 0) && ok, out->flipped[out->n_flipped++] = inputs[i].name;
    if (crop && is_for(s, crop, inputs[i].name))
      ok = check_image(e, crop, &inputs[i], out->crop) && ok, out->cropped[out->n_cropped++] = inputs[i].name;
  }
  return ok;
}
