// errors FOLDER: every error of the interface. FOLDER has good and spoiled data (runtime/make_data), and what the test
// has put there.
#include <fcntl.h>
#include <math.h>
#include <stdint.h>
#include <sys/resource.h>
#include <unistd.h>

#include "libconv.h"
#include "libnet.h"
#include "libplain.h"
#include "test.h"

static const nnc_model *const m = &net_model;
static char message[1024];
static unsigned char image[16][16];
static int32_t label[16];

static nnc_net *make(const nnc_model *model, const nnc_options *options) {
  nnc_net *net = NULL;
  nnc_status status = model->create(options, &net, message, sizeof message);
  CHECK(status == NNC_OK && net && !*message, "%d: %s", status, message);
  return net;
}

static void refuse(const nnc_model *model, const nnc_options *options, nnc_status expected, const char *why) {
  nnc_net *net = (nnc_net *)message;
  nnc_status status = model->create(options, &net, message, sizeof message);
  CHECK(status == expected && !net && strstr(message, why), "%d, not %d: %s", status, expected, message);
  status = model->create(options, &net, NULL, 0);
  CHECK(status == expected && !net, "without a message: %d", status);
}

static void expect(const nnc_net *net, nnc_status status, nnc_status expected, const char *why) {
  CHECK(status == expected && strstr(m->last_error(net), why), "%d, not %d: %s", status, expected, m->last_error(net));
}

static nnc_tensor inputs[2] = {{.name = "image", .type = NNC_TYPE_U8, .data = image},
                               {.name = "label", .type = NNC_TYPE_I32, .data = label}};

static nnc_net *inside;
static int heard, heard_errors;
static nnc_status status_inside;

// Called from within a call: the instance is in use.
static void hear(void *context, int is_error, const char *text) {
  heard++;
  heard_errors += is_error;
  CHECK(context == &heard && *text, "%s", text);
  nnc_info info;
  if (inside) status_inside = m->info(inside, &info);
}

static void test_create(const char *folder) {
  char path[512];
  refuse(m, &(nnc_options){.threads = -1}, NNC_ERROR_ARGUMENT, "out of range");
  refuse(m, &(nnc_options){.functions = 8}, NNC_ERROR_ARGUMENT, "out of range");
  refuse(m, &(nnc_options){.weights = "a", .checkpoint = "b"}, NNC_ERROR_ARGUMENT, "exclude each other");
  refuse(m, &(nnc_options){.memory = 1000}, NNC_ERROR_MEMORY, "the options allow 1000 bytes");
  refuse(m, &(nnc_options){.weights = "nowhere"}, NNC_ERROR_FILE, "nowhere");
  refuse(m, &(nnc_options){.checkpoint = "nowhere"}, NNC_ERROR_FILE, "nowhere");
  refuse(m, &(nnc_options){.data = "nowhere"}, NNC_ERROR_DATA, "no file train-images.idx.gz in nowhere");
  static const char *const kinds[] = {"missing", "truncated", "badmagic", "badgzip",
                                      "shape",   "label",     "mismatch", "long"};
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    snprintf(path, sizeof path, "%s/%s", folder, kinds[i]);
    refuse(m, &(nnc_options){.data = path}, NNC_ERROR_DATA, "");
  }
  refuse(&plain_model, &(nnc_options){.functions = NNC_TRAINS}, NNC_ERROR_FUNCTION, "no train section");
  refuse(&plain_model, &(nnc_options){.functions = NNC_EVALUATES}, NNC_ERROR_FUNCTION, "evaluate");
  CHECK(m->create(NULL, NULL, message, sizeof message) == NNC_ERROR_ARGUMENT, "nowhere to put it");
}

static void test_tensors(nnc_net *net) {
  nnc_tensor t;
  nnc_info info;
  double number;
  float values[16 * 16];
  expect(net, m->info(net, NULL), NNC_ERROR_ARGUMENT, "NULL");
  expect(net, m->find(net, NULL, &t), NNC_ERROR_ARGUMENT, "NULL");
  expect(net, m->find(net, "x", NULL), NNC_ERROR_ARGUMENT, "NULL");
  expect(net, m->describe(net, 0, NULL), NNC_ERROR_ARGUMENT, "NULL");
  expect(net, m->find(net, "nothing", &t), NNC_ERROR_NAME, "no tensor nothing");
  CHECK(m->info(net, &info) == NNC_OK, "info");
  expect(net, m->describe(net, info.tensors, &t), NNC_ERROR_NAME, "no tensor with the number");
  expect(net, m->describe(net, -1, &t), NNC_ERROR_NAME, "no tensor with the number");
  expect(net, m->get(net, NULL), NNC_ERROR_ARGUMENT, "NULL");
  expect(net, m->set(net, NULL), NNC_ERROR_ARGUMENT, "NULL");
  nnc_tensor w = {.name = "linear.weight", .type = NNC_TYPE_F32};
  expect(net, m->get(net, &w), NNC_ERROR_ARGUMENT, "NULL");
  w.data = values, w.type = NNC_TYPE_I32;
  expect(net, m->get(net, &w), NNC_ERROR_TYPE, "is f32, the caller's is i32");
  w.type = (nnc_type)77;
  expect(net, m->set(net, &w), NNC_ERROR_TYPE, "no type");
  w.type = NNC_TYPE_F32, w.rank = 2, w.dim[0] = 16, w.dim[1] = 15;
  expect(net, m->get(net, &w), NNC_ERROR_SHAPE, "[16, 15]");
  w.dim[1] = 16, w.bytes = 7;
  expect(net, m->set(net, &w), NNC_ERROR_SHAPE, "not 7");
  w.rank = 77;
  expect(net, m->set(net, &w), NNC_ERROR_SHAPE, "no rank");
  expect(net, m->get(net, &(nnc_tensor){.name = "nothing", .data = values}), NNC_ERROR_NAME, "no tensor nothing");
  expect(net, m->set(net, &(nnc_tensor){.name = "loss", .type = NNC_TYPE_F64, .data = values}), NNC_ERROR_NAME, "loss");
  expect(net, m->get_number(net, "nothing", &number), NNC_ERROR_NAME, "no number nothing");
  expect(net, m->get_number(net, NULL, &number), NNC_ERROR_ARGUMENT, "NULL");
  expect(net, m->set_number(net, "learning_rate", -1), NNC_ERROR_ARGUMENT, "learning_rate");
  expect(net, m->set_number(net, "step", 0.5), NNC_ERROR_ARGUMENT, "step");
}

static void test_steps(nnc_net *net) {
  nnc_tensor wrong[3] = {inputs[0], inputs[1], inputs[0]};
  expect(net, m->step(net, 2, NULL), NNC_ERROR_ARGUMENT, "NULL");
  expect(net, m->step(net, -1, inputs), NNC_ERROR_ARGUMENT, "NULL");
  expect(net, m->step(net, 3, wrong), NNC_ERROR_NAME, "is given twice");
  double gradient[16 * 16];
  nnc_tensor value[2] = {{.name = "grad.linear.weight", .type = NNC_TYPE_F64, .data = gradient}};
  value[1] = value[0];
  expect(net, m->step_values(net, 2, inputs, 1, NULL), NNC_ERROR_ARGUMENT, "NULL");
  expect(net, m->step_values(net, 2, inputs, 2, value), NNC_ERROR_NAME, "grad.linear.weight is asked for twice");
  value[1].name = "loss";
  expect(net, m->step_values(net, 2, inputs, 2, value), NNC_ERROR_NAME, "a step has no value loss");
  value[1].name = NULL;
  expect(net, m->step_values(net, 2, inputs, 2, value), NNC_ERROR_NAME, "without a name");
  value[0].type = NNC_TYPE_I32;
  expect(net, m->step_values(net, 2, inputs, 1, value), NNC_ERROR_TYPE, "is f32, the caller's is i32");
  value[0].type = NNC_TYPE_F64, value[0].bytes = 8;
  expect(net, m->step_values(net, 2, inputs, 1, value), NNC_ERROR_SHAPE, "the caller's has []");
  value[0].bytes = 0;
  CHECK(m->step_values(net, 2, inputs, 1, value) == NNC_OK, "%s", m->last_error(net));   // all is as it was
  expect(net, m->step(net, 0, NULL), NNC_ERROR_DATA, "not told to read");
  expect(net, m->evaluate(net, 0, NULL), NNC_ERROR_DATA, "not told to read");
  expect(net, m->step(net, 1, inputs), NNC_ERROR_NAME, "needs the input label");
  wrong[2].name = "picture";
  expect(net, m->step(net, 3, wrong), NNC_ERROR_NAME, "no input picture");
  wrong[0].rank = 4, wrong[0].dim[0] = 7, wrong[0].dim[1] = 1, wrong[0].dim[2] = wrong[0].dim[3] = 4;
  expect(net, m->step(net, 2, wrong), NNC_ERROR_SHAPE, "[7, 1, 4, 4]");
  wrong[0] = inputs[0], wrong[1].type = NNC_TYPE_F32;
  expect(net, m->step(net, 2, wrong), NNC_ERROR_TYPE, "label");
  label[3] = 3;
  expect(net, m->step(net, 2, inputs), NNC_ERROR_VALUE, "element 3 is 3, outside of 0..2");
  expect(net, m->evaluate(net, 2, inputs), NNC_ERROR_VALUE, "element 3");
  label[3] = 0;
  nnc_tensor own;
  CHECK(m->find(net, "image", &own) == NNC_OK && own.data, "the place of an input");
  wrong[0] = inputs[0], wrong[1] = inputs[1], wrong[1].data = (char *)own.data + 64;
  expect(net, m->step(net, 2, wrong), NNC_ERROR_ARGUMENT, "lies where the step works");
  CHECK(m->find(net, "label", &own) == NNC_OK && own.data, "the place of an input");
  wrong[1].data = own.data, wrong[1].type = NNC_TYPE_I64;   // which would be read as the input's own type
  expect(net, m->step(net, 2, wrong), NNC_ERROR_ARGUMENT, "lies where the step works");
  float scores[16][3];
  nnc_tensor out = {.name = "output", .type = NNC_TYPE_F32, .data = scores}, named;
  for (int64_t i = 0; m->describe(net, i, &named) == NNC_OK; i++)
    if (named.role == NNC_ROLE_OUTPUT) out.name = named.name;
  expect(net, m->predict(net, 1, inputs, 1, NULL), NNC_ERROR_ARGUMENT, "NULL");
  expect(net, m->predict(net, 2, inputs, 1, &out), NNC_ERROR_NAME, "no input label");
  expect(net, m->output_shape(net, 1, inputs, NULL), NNC_ERROR_ARGUMENT, "NULL");
  expect(net, m->output_shape(net, 2, inputs, &out), NNC_ERROR_NAME, "no input label");
  nnc_tensor five = {.name = "image", .type = NNC_TYPE_U8, .rank = 4, .dim = {5, 1, 4, 4}, .data = image};
  nnc_tensor shape = {.name = out.name, .data = &shape};
  CHECK(m->output_shape(net, 1, &five, &shape) == NNC_OK, "%s", m->last_error(net));
  CHECK(shape.role == NNC_ROLE_OUTPUT && shape.type == NNC_TYPE_F32 && shape.rank == 2 && shape.dim[0] == 5 &&
            shape.dim[1] == 3 && shape.bytes == 60 && shape.data == &shape,
        "the shape of an output");
  five.dim[2] = 5;
  expect(net, m->output_shape(net, 1, &five, &shape), NNC_ERROR_SHAPE, "image has shape [5, 1, 4, 4]");
  shape.name = "nothing";
  expect(net, m->output_shape(net, 1, inputs, &shape), NNC_ERROR_NAME, "no output nothing");
  out.rank = 2, out.dim[0] = 9, out.dim[1] = 3;
  expect(net, m->predict(net, 1, inputs, 1, &out), NNC_ERROR_SHAPE, "[9, 3]");
  out.rank = 0, out.name = "nothing";
  expect(net, m->predict(net, 1, inputs, 1, &out), NNC_ERROR_NAME, "no output nothing");
  // nothing of this has hurt
  CHECK(m->step(net, 2, inputs) == NNC_OK, "%s", m->last_error(net));
}

static void test_files(nnc_net *net, const char *folder) {
  char path[512];
  nnc_net *other = make(&conv_model, NULL);
  expect(net, m->save(net, NULL, NNC_WEIGHTS), NNC_ERROR_ARGUMENT, "no path");
  expect(net, m->save(net, "x", 7), NNC_ERROR_ARGUMENT, "neither");
  expect(net, m->save(net, "nowhere/x", NNC_WEIGHTS), NNC_ERROR_FILE, "nowhere");
  expect(net, m->load(net, "nowhere", NNC_WEIGHTS), NNC_ERROR_FILE, "nowhere");
  snprintf(path, sizeof path, "%s/conv.safetensors", folder);
  CHECK(conv_model.save(other, path, NNC_CHECKPOINT) == NNC_OK, "%s", conv_model.last_error(other));
  expect(net, m->load(net, path, NNC_CHECKPOINT), NNC_ERROR_FILE, "checkpoint of model conv");
  expect(net, m->load(net, path, NNC_WEIGHTS), NNC_ERROR_FILE, "linear");
  snprintf(path, sizeof path, "%s/good/train-labels.idx", folder);
  expect(net, m->load(net, path, NNC_WEIGHTS), NNC_ERROR_FILE, "train-labels.idx");
  // of another model
  nnc_info info;
  CHECK(m->info(other, &info) == NNC_ERROR_ARGUMENT && m->step(other, 2, inputs) == NNC_ERROR_ARGUMENT,
        "an instance of conv");
  CHECK(m->info(NULL, &info) == NNC_ERROR_ARGUMENT && *m->last_error(NULL), "no instance");
  m->destroy(other);
  conv_model.destroy(other);
}

static void test_not_finite(void) {
  nnc_net *net = make(m, NULL);
  float bias[3] = {1, NAN, 0};
  char path[] = "not-finite.safetensors";
  CHECK(m->step(net, 2, inputs) == NNC_OK, "%s", m->last_error(net));
  CHECK(m->set(net, &(nnc_tensor){.name = "linear_2.bias", .type = NNC_TYPE_F32, .data = bias}) == NNC_OK, "%s",
        m->last_error(net));
  expect(net, m->save(net, path, NNC_WEIGHTS), NNC_ERROR_NOT_FINITE, "linear_2.bias holds numbers");
  expect(net, m->step(net, 2, inputs), NNC_ERROR_NOT_FINITE, "not a finite number at step 2");
  CHECK(access(path, F_OK) != 0, "no file");
  m->destroy(net);
}

static void test_functions(void) {
  nnc_net *plain = make(&plain_model, NULL), *trains = make(m, &(nnc_options){.functions = NNC_TRAINS});
  nnc_info whole, part;
  expect(trains, m->predict(trains, 1, inputs, 0, NULL), NNC_ERROR_FUNCTION, "does not predict");
  expect(trains, m->output_shape(trains, 1, inputs, &(nnc_tensor){0}), NNC_ERROR_FUNCTION, "does not predict");
  expect(trains, m->evaluate(trains, 2, inputs), NNC_ERROR_FUNCTION, "does not evaluate");
  CHECK(plain_model.step(plain, 2, inputs) == NNC_ERROR_FUNCTION, "%s", plain_model.last_error(plain));
  CHECK(plain_model.save(plain, "x", NNC_CHECKPOINT) == NNC_ERROR_FUNCTION, "%s", plain_model.last_error(plain));
  CHECK(plain_model.set_number(plain, "learning_rate", 1) == NNC_ERROR_FUNCTION, "%s", plain_model.last_error(plain));
  nnc_net *predicts = make(m, &(nnc_options){.functions = NNC_PREDICTS}), *all = make(m, NULL);
  m->info(all, &whole), m->info(predicts, &part);
  CHECK(part.arena_bytes < whole.arena_bytes && part.functions == NNC_PREDICTS && whole.functions == 7, "functions");
  plain_model.destroy(plain);
  m->destroy(trains), m->destroy(predicts), m->destroy(all);
}

// An input of its own shape beside one of another number of records.
static void test_records(void) {
  nnc_net *net = make(&plain_model, NULL);
  static float x[100][3], y[100][2];
  nnc_tensor in[2] = {{.name = "x", .data = x}, {.name = "y", .data = x}}, out = {.data = y}, named;
  for (int64_t i = 0; plain_model.describe(net, i, &named) == NNC_OK; i++)
    if (named.role == NNC_ROLE_OUTPUT) out.name = named.name;
  for (int k = 0; k < 2; k++) {
    nnc_tensor *counts = &in[k];
    counts->rank = 2, counts->dim[0] = 100, counts->dim[1] = 3;
    nnc_status status = plain_model.predict(net, 2, in, 1, &out);
    CHECK(status == NNC_ERROR_SHAPE && strstr(plain_model.last_error(net), "own shape, of 4 records, others have 100"),
          "%d: %s", status, plain_model.last_error(net));
    counts->dim[0] = 4;
    CHECK(plain_model.predict(net, 2, in, 1, &out) == NNC_OK, "%s", plain_model.last_error(net));
    counts->rank = 0;
  }
  CHECK(plain_model.predict(net, 2, in, 1, &out) == NNC_OK, "%s", plain_model.last_error(net));
  plain_model.destroy(net);
}

static void test_messages(void) {
  nnc_net *net = make(m, &(nnc_options){.report = hear, .context = &heard, .threads = 1000});
  CHECK(heard == 1 && heard_errors == 0, "a warning of the threads");
  inside = net;
  expect(net, m->step(net, 1, inputs), NNC_ERROR_NAME, "label");
  CHECK(heard == 2 && heard_errors == 1 && status_inside == NNC_ERROR_BUSY, "%d from within", status_inside);
  inside = NULL;
  CHECK(m->step(net, 2, inputs) == NNC_OK && !*m->last_error(net), "the message is of the last call");
  m->destroy(net);
}

// All memory that is left is too little for the arena's mapping.
static void test_memory(void) {
  struct rlimit before, little = {.rlim_cur = 1, .rlim_max = RLIM_INFINITY};
  getrlimit(RLIMIT_AS, &before);
  little.rlim_max = before.rlim_max;
  setrlimit(RLIMIT_AS, &little);
  nnc_net *net;
  nnc_status status = m->create(NULL, &net, message, sizeof message);
  setrlimit(RLIMIT_AS, &before);
  CHECK(status == NNC_ERROR_MEMORY && strstr(message, "arena"), "%d: %s", status, message);
}

int main(int argc, char **argv) {
  if (argc != 2) return 2;
  nnc_net *net = make(m, NULL);
  if (!net) return 1;
  test_create(argv[1]);
  test_tensors(net);
  test_steps(net);
  test_files(net, argv[1]);
  m->destroy(net);
  m->destroy(NULL);
  test_not_finite();
  test_functions();
  test_records();
  test_messages();
  test_memory();
  return failures > 0;
}
