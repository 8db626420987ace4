// Kernels with a convolution: what follows it becomes a function from results and operands in registers to results in
// registers, which the convolution's template calls before it writes (template_conv_epilogue.c); what stands in front
// of it becomes one on its operand (template_conv_prologue.c). The functions know no shape, so that they and the kernel
// around them serve all shapes of one chain of ops. Sums over the pixels leave partial results, which the combining
// launch of a column kernel adds up.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/cuda/conv.h"
#include "codegen/cuda/template/template.h"
#include "codegen/kernel/reduce.h"
#include "codegen/op_records.h"
#include "support/alloc.h"
#include "support/integers.h"
#include "support/text.h"

enum { MOST_OPS = 48 };

typedef struct Chain {
  const Kernel *k;   // Borrowed; its domain is what the chain goes over
  NncConv conv;
  ConvShape shape;
  ConvEpilogue e;
  int input_arg[EPILOGUE_INPUTS];        // which argument of the kernel
  int output_result[EPILOGUE_OUTPUTS];   // which result
  MlirValue term[EPILOGUE_SUMS];
  MlirValue operand;   // of a prologue: what it makes; null in an epilogue
  bool fits;
} Chain;

// ---------------------------------------------------------------------------------------------------------------------
// What of the body the function needs

// Where a slice of channels lies in each pixel of a tensor with `channels` of them, from `first` on. EPILOGUE_LANES are
// read at once.
typedef struct SliceOfChannels {
  int64_t channels, first;
} SliceOfChannels;

static bool is_slice(const Kernel *k, const Access *a, SliceOfChannels *slice) {
  int last = k->domain.rank - 1;
  int64_t pixels = 1;
  *slice = (SliceOfChannels){.first = a->offset};
  for (int i = last - 1; i >= 0; pixels *= k->domain.dim[i], i--) {
    if (k->domain.dim[i] == 1) continue;
    if (!slice->channels) slice->channels = a->stride[i];
    if (a->stride[i] != pixels * slice->channels) return false;
  }
  return a->stride[last] == 1 && slice->first >= 0 && slice->first + k->domain.dim[last] <= slice->channels &&
         slice->channels <= INT32_MAX && slice->channels % EPILOGUE_LANES == 0 && slice->first % EPILOGUE_LANES == 0;
}

static bool shape_of(const Kernel *k, const Access *a, EpilogueShape *out, SliceOfChannels *slice) {
  Layout dense = layout_row_major(&k->domain);
  int last = k->domain.rank - 1;
  bool element = a->offset == 0, channel = element, scalar = element;
  for (int i = 0; i < k->domain.rank; i++) {
    if (k->domain.dim[i] == 1) continue;
    element &= a->stride[i] == dense.stride[i];
    channel &= a->stride[i] == (i == last);
    scalar &= a->stride[i] == 0;
  }
  *out = scalar ? EPILOGUE_SCALAR : channel ? EPILOGUE_CHANNEL : element ? EPILOGUE_ELEMENT : EPILOGUE_SLICE;
  return scalar || channel || element || is_slice(k, a, slice);
}

static int find_input(const Chain *c, int arg, EpilogueShape shape) {
  for (int i = 0; i < c->e.n_inputs; i++)
    if (c->input_arg[i] == arg && c->e.input[i].shape == shape) return i;
  return -1;
}

static void add_leaf(void *user, int arg, MlirValue value, const Access *a) {
  Chain *c = user;
  EpilogueShape shape;
  SliceOfChannels slice;
  bool known = shape_of(c->k, a, &shape, &slice);
  if (arg < 0 && !nn_value_is_null(c->operand)) {
    c->fits = false;
    return;
  }
  if (arg < 0) {   // of what is computed on the way only the convolution's own result, at its own place
    c->fits &= known && (shape == EPILOGUE_ELEMENT || shape == EPILOGUE_CHANNEL) &&
               mlirOperationEqual(nn_value_def(value), c->k->library);
    return;
  }
  if (known && shape == EPILOGUE_SLICE) {
    bool first = !c->shape.slice_channels;
    known = nn_value_is_null(c->operand) &&
            (first || (c->shape.slice_channels == slice.channels && c->shape.slice_first == slice.first));
    if (first) c->shape.slice_channels = slice.channels, c->shape.slice_first = slice.first;
  }
  c->fits &= known && (c->e.n_inputs < EPILOGUE_INPUTS || find_input(c, arg, shape) >= 0);
  if (!c->fits || find_input(c, arg, shape) >= 0) return;
  c->input_arg[c->e.n_inputs] = arg;
  c->e.input[c->e.n_inputs++] = (EpilogueValue){.dtype = (NncDtype)c->k->arg[arg].dtype,
                                                .shape = shape,
                                                .aligned = true};
}

static void add_outputs(Chain *c) {
  const Kernel *k = c->k;
  IndexMap domain = index_map_domain(k);
  for (int r = 0; r < k->n_results && c->fits; r++) {
    if (kernel_is_kept_shaped(k, &k->result_type[r])) continue;
    c->fits &= c->e.n_outputs < EPILOGUE_OUTPUTS && nn_shape_equal(&k->result_type[r], &k->domain);
    if (!c->fits) return;
    kernel_walk_leaves(k, k->result[r], &domain, add_leaf, c);
    c->output_result[c->e.n_outputs] = r;
    c->e.output[c->e.n_outputs++] = (EpilogueValue){.dtype = (NncDtype)k->result_type[r].dtype, .aligned = true};
  }
}

// Sums over all axes but the channels', of values known without any other sum.
static void add_sums(Chain *c, const Reduce *r) {
  IndexMap domain = index_map_domain(c->k);
  bool any_moments = false;
  c->fits &= r->n_stages <= 1 && !r->lanes_on_reduced && r->outer_extent == 1 &&
             r->vector_extent == c->k->domain.dim[c->k->domain.rank - 1];
  for (int i = 0; i < r->n_units && c->fits; i++) {
    const Unit *u = &r->units[i];
    if (u->kind == UNIT_M2) continue;   // with its mean
    bool moments = u->kind == UNIT_MEAN;
    c->fits &= u->kind != UNIT_MAX && u->dtype == NN_F32 && c->e.n_sums < EPILOGUE_SUMS && !(moments && any_moments);
    any_moments |= moments;
    if (!c->fits) return;
    kernel_walk_leaves(c->k, u->operand, &domain, add_leaf, c);
    c->term[c->e.n_sums] = u->operand;
    c->e.moments[c->e.n_sums++] = moments;
  }
}

static int count_ops(const Kernel *k) {
  int n = 0;
  NN_FOREACH_OP (op, nn_function_body(k->func)) {
    NnOp kind = nn_op_of(op);
    n += kind != NN_OP_NONE && nn_op_info(kind)->kind == NN_KIND_MAP;
    // one convolution is enough
    if (kind != NN_OP_NONE && nn_op_info(kind)->kind == NN_KIND_LIBRARY && !mlirOperationEqual(op, k->library))
      return MOST_OPS + 1;
  }
  return n;
}

// A kernel may read an argument through any view, which is only another address; of a convolution's result the
// registers are at hand.
static bool is_viewed(const Kernel *k) {
  NN_FOREACH_USE (use, mlirOperationGetResult(k->library, 0)) {
    NnOp kind = nn_op_of(mlirOpOperandGetOwner(use));
    if (kind != NN_OP_NONE && nn_op_info(kind)->kind == NN_KIND_VIEW) return true;
  }
  return false;
}

// The kernel as one over the convolution's first operand.
static Kernel kernel_of_operand(const Kernel *k) {
  Kernel of = *k;
  of.domain = nn_value_type(mlirOperationGetOperand(k->library, 0));
  of.n_results = 0;
  memset(of.reduced, 0, sizeof of.reduced);
  return of;
}

static bool has_prologue(const Kernel *k) { return !mlirValueIsABlockArgument(mlirOperationGetOperand(k->library, 0)); }

static bool is_aligned(const bool *aligned, int buffer) { return !aligned || aligned[buffer]; }

// aligned: by buffer, NULL: all begin at multiples of 16 bytes.
static Chain chain_of(const CudaTarget *target, const Kernel *k, const bool *aligned) {
  Chain c = {.k = k};
  c.fits = (k->kind == KERNEL_MAP || k->kind == KERNEL_COLUMN) && op_conv_record(k->library, &c.conv) &&
           c.conv.pass != NNC_CONV_WEIGHT_GRAD && conv_uses_template(target, &c.conv, &c.shape) &&
           count_ops(k) <= MOST_OPS && !is_viewed(k);
  if (!c.fits) return c;
  add_outputs(&c);
  if (k->kind == KERNEL_COLUMN && c.fits) {
    Reduce r;
    reduce_plan_values(k, 1, &r);
    add_sums(&c, &r);
  }
  for (int i = 0; i < c.e.n_inputs; i++) c.e.input[i].aligned = is_aligned(aligned, c.input_arg[i]);
  for (int i = 0; i < c.e.n_outputs; i++) c.e.output[i].aligned = is_aligned(aligned, k->n_args + c.output_result[i]);
  return c;
}

// What stands in front of the convolution: a map of one tensor of the operand's shape and type; all else is by channel
// or a scalar. of: kernel_of_operand.
static Chain prologue_of(const Kernel *of, const Chain *behind, const bool *aligned) {
  Chain c = {.k = of, .conv = behind->conv, .shape = behind->shape, .operand = mlirOperationGetOperand(of->library, 0)};
  c.fits = conv_takes_prologue(&c.shape);
  IndexMap domain = index_map_domain(of);
  if (c.fits) kernel_walk_leaves(of, c.operand, &domain, add_leaf, &c);
  int n_elements = 0;
  for (int i = 0; i < c.e.n_inputs && c.fits; i++) {
    bool element = c.e.input[i].shape == EPILOGUE_ELEMENT;
    c.e.input[i].aligned = element || is_aligned(aligned, c.input_arg[i]);   // operands of a convolution are
    n_elements += element;
    c.fits &= !element || c.e.input[i].dtype == c.conv.dtype;
  }
  c.e.n_outputs = 1;
  c.e.output[0] = (EpilogueValue){.dtype = c.conv.dtype, .aligned = true};
  c.fits &= n_elements == 1;
  return c;
}

bool cuda_epilogue_ok(const NnTarget *target, MlirOperation func) {
  Kernel k;
  kernel_read(func, &k);
  Chain c = chain_of(cuda_target(target), &k, NULL);
  if (c.fits && has_prologue(&k)) {
    Kernel of = kernel_of_operand(&k);
    c.fits = prologue_of(&of, &c, NULL).fits;
  }
  kernel_free(&k);
  return c.fits;
}

// ---------------------------------------------------------------------------------------------------------------------
// The function

typedef struct FunctionValues {
  const Chain *c;
  Value input[EPILOGUE_INPUTS];
} FunctionValues;

static Value argument(Emitter *e, int arg, NnDtype dtype, const Access *a) {
  const FunctionValues *f = e->user;
  EpilogueShape shape;
  SliceOfChannels slice;
  bool known = shape_of(e->k, a, &shape, &slice);
  int i = find_input(f->c, arg, shape);
  require_promise(known && i >= 0 && dtype == e->k->arg[arg].dtype, "an operand of an epilogue that was not foreseen");
  return f->input[i];
}

static void open_nothing(Emitter *e, int n_buffers) { (void)e, (void)n_buffers; }

static void write_function(CudaModule *m, const Chain *c, const char *symbol) {
  const Kernel *k = c->k;
  KernelTarget target = m->gpu.m.target;
  FunctionValues f = {.c = c};
  Emitter e;
  int id[EPILOGUE_INPUTS], n = 0;
  m->gpu.m.target.open = open_nothing;
  emitter_begin(&e, &m->gpu.m, k, symbol, k->n_args + k->n_results);
  m->gpu.m.target = target;
  schedule_forget(&e, EPILOGUE_LANES);
  e.argument = argument;
  e.user = &f;
  IndexMap domain = index_map_domain(k);
  bool epilogue = nn_value_is_null(c->operand);
  Value accumulator = {.varies = true};
  if (epilogue) accumulator.id = emit_argument(&e, vector_type(&e, NN_F32).text);
  else e.next_id++;
  for (int i = 0; i < c->e.n_inputs; i++)
    id[i] = emit_argument(&e, vector_memory_type(&e, (NnDtype)c->e.input[i].dtype).text);
  for (int i = 0; i < c->e.n_inputs; i++)
    f.input[i] = emit_from_memory(&e, (NnDtype)c->e.input[i].dtype, (Value){id[i], 0, true});
  MlirValue y = mlirOperationGetResult(k->library, 0);
  if (epilogue) expression_bind(&e, y, &domain, emit_round(&e, nn_value_dtype(y), accumulator));
  Value values[EPILOGUE_OUTPUTS + EPILOGUE_SUMS];
  TypeName types[EPILOGUE_OUTPUTS + EPILOGUE_SUMS];
  for (int i = 0; i < c->e.n_outputs; i++, n++) {
    NnDtype dtype = (NnDtype)c->e.output[i].dtype;
    values[n] = emit_to_memory(&e, dtype,
                               expression(&e, epilogue ? k->result[c->output_result[i]] : c->operand, &domain));
    types[n] = vector_memory_type(&e, dtype);
  }
  for (int i = 0; i < c->e.n_sums; i++, n++) {
    values[n] = expression(&e, c->term[i], &domain);
    types[n] = vector_type(&e, NN_F32);
  }
  emitter_end_with(&e, n, values, types);
}

// What tells one epilogue from another besides the function: where its operands come from.
static char *signature_of(const Chain *c) {
  Text t = {0};
  for (int i = 0; i < c->e.n_inputs; i++)
    text_add(&t, "%c%d%s,", "ecsl"[c->e.input[i].shape], (int)c -> e.input[i].dtype, c->e.input[i].aligned ? "" : "u");
  text_add(&t, ":");
  for (int i = 0; i < c->e.n_outputs; i++)
    text_add(&t, "%d%s,", (int)c->e.output[i].dtype, c->e.output[i].aligned ? "" : "u");
  text_add(&t, ":");
  for (int i = 0; i < c->e.n_sums; i++) text_add(&t, "%c", c->e.moments[i] ? 'm' : 's');
  text_add(&t, "\n");
  return t.data;
}

// Names the chain's function, which the module gets unless it has an equal one.
static void add_function(CudaModule *m, Chain *c) {
  const char *base = nn_value_is_null(c->operand) ? "epilogue" : "prologue";
  write_function(m, c, base);
  KernelFunction *f = &m->gpu.m.functions.items[m->gpu.m.functions.n - 1];
  Text key = {0};
  char *signature = signature_of(c);
  text_append(&key, signature, strlen(signature));
  function_print(f, &key);
  free(signature);
  int i = 0;
  while (i < m->n_epilogues && strcmp(m->epilogues[i], key.data) != 0) i++;
  snprintf(c->e.function, sizeof c->e.function, "%s%d", base, i);
  if (i < m->n_epilogues) {
    text_free(&key);
    function_free(f);
    m->gpu.m.functions.n--;
    return;
  }
  free(f->symbol);
  f->symbol = copy_string(c->e.function);
  *ARRAY_ADD(m->epilogues, m->n_epilogues) = key.data;
}

// ---------------------------------------------------------------------------------------------------------------------
// The kernel

// Places of what is added up by channel: the template's own workspace first, then the partial sums of row blocks, from
// *combine_from on. Returns the bytes of all.
static int64_t place_sums(Chain *c, int64_t *combine_from) {
  int64_t from = round_up(conv_template_workspace(&c->shape), 64), pitch;
  *combine_from = from;
  if (!c->e.n_sums) return from;
  int64_t bytes = schedule_combine_plan(c->k, conv_template_rows(), from, &pitch);
  c->shape.partials = from / 4;
  c->shape.partials_pitch = pitch / 4;
  require_promise(bytes / 4 < INT32_MAX, "more to add up than the numbers of a kernel hold");
  return bytes;
}

int64_t conv_kernel_workspace(const CudaTarget *target, const Kernel *k) {
  int64_t from;
  Chain c = chain_of(target, k, NULL);
  return place_sums(&c, &from);
}

int conv_kernel_launches(const CudaTarget *target, const Kernel *k) {
  Chain c = chain_of(target, k, NULL);
  return conv_template_launches(&c.shape) + (c.e.n_sums > 0);
}

// The argument that is an operand of the convolution or, in front of a prologue, what that is made of.
static int argument_of(const Kernel *k, const Chain *prologue, int operand) {
  if (operand == 1 || !has_prologue(k)) return nn_value_index(mlirOperationGetOperand(k->library, operand));
  int i = 0;
  while (prologue->e.input[i].shape != EPILOGUE_ELEMENT) i++;
  return prologue->input_arg[i];
}

static void add_buffers(const Chain *c, const Chain *prologue, int launch, bool has_workspace, KernelLaunch *l) {
  const Kernel *k = c->k;
  int x = argument_of(k, prologue, 0), workspace = has_workspace ? k->n_args + k->n_results : x,
      products = conv_template_launches(&c->shape);
  bool product = launch == products - 1;
  l->buffers = allocate_array(4 + 2 * EPILOGUE_INPUTS + EPILOGUE_OUTPUTS, sizeof *l->buffers);
  const int first[] = {x, argument_of(k, prologue, 1), x, workspace};   // nothing writes the third
  for (int i = 0; i < 4; i++) l->buffers[l->n_buffers++] = first[i];
  for (int i = 0; i < c->e.n_inputs && product; i++) l->buffers[l->n_buffers++] = c->input_arg[i];
  for (int i = 0; i < c->e.n_outputs && product; i++) l->buffers[l->n_buffers++] = k->n_args + c->output_result[i];
  for (int i = 0; i < prologue->e.n_inputs && product; i++)
    if (prologue->e.input[i].shape != EPILOGUE_ELEMENT) l->buffers[l->n_buffers++] = prologue->input_arg[i];
}

void conv_kernel_emit(CudaModule *m, const Kernel *k, EmittedKernel *out) {
  int64_t from;
  Chain c = chain_of(m->target, k, m->gpu.aligned);
  require_promise(c.fits, "an epilogue that the convolution cannot take");
  out->workspace_bytes = place_sums(&c, &from);
  kernel_comment(&m->gpu.m, k,
                 has_prologue(k) ? "a convolution; what is in front of it is done to its operand on the way, what "
                                   "follows to its results before they are written"
                                 : "a convolution; the rest is done to its results before they are written");
  kernel_take(&m->gpu.m, out);
  add_function(m, &c);
  c.shape.epilogue = c.e;
  c.shape.ending_buffers = c.e.n_inputs + c.e.n_outputs;
  Kernel of = kernel_of_operand(k);
  Chain prologue = {0};
  if (has_prologue(k)) {
    prologue = prologue_of(&of, &c, m->gpu.aligned);
    require_promise(prologue.fits, "a prologue that the convolution cannot take");
    add_function(m, &prologue);
    c.shape.prologue = prologue.e;
  }
  functions_move(&m->gpu.m.functions, &out->called);
  cuda_add_template(&c.shape, out);
  for (int i = 0; i < out->n_launches; i++) add_buffers(&c, &prologue, i, out->workspace_bytes > 0, &out->launches[i]);
  if (!c.e.n_sums) return;
  schedule_combine(&m->gpu, k, conv_template_rows(), from, out);
  kernel_take(&m->gpu.m, out);
}
