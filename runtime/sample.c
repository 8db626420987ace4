// `predict --sample`: a language model goes on with a text. Each token is drawn from what the model says follows the
// tokens so far, of which it sees the last as many as its context holds; what is before them is in the states of a
// model that carries some through a text. The draws depend on the seed and the number of the token only.
#include <stdlib.h>
#include <string.h>

#include "runtime/checksum.h"
#include "runtime/comm/comm.h"
#include "runtime/runtime.h"
#include "runtime/sample.h"
#include "runtime/training.h"

// ---------------------------------------------------------------------------------------------------------------------
// What is sampled from

// The input that is the text: that which the caches are made for, else the only one that the file lacks. NULL: none.
static const NncTensor *find_text(Sampler *p, const NncFunction *f) {
  const NncFunction *one = program_function("decode");
  const NncTensor *found = NULL;
  int inputs = 0, texts = 0;
  for (int i = 0; i < f->n_args; i++) {
    const NncTensor *t = &f->args[i];
    if (t->role != NNC_INPUT) continue;
    inputs++;
    const NncTensor *cached = one ? function_input(one, t->name) : NULL;
    bool text = one ? cached && !cached->whole : !inputs_find(p->opened ? &p->file : NULL, t);
    if (text) found = t, texts++;
  }
  p->reads = inputs > 1;
  return texts == 1 && found->rank == 2 && !dtype_is_float(found->dtype) ? found : NULL;
}

static bool find_tensors(Sampler *p, const NncFunction *f) {
  p->input = find_text(p, f);
  if (!p->input) {
    report_error("--sample is for a language model, whose one input is tokens [batch, length]%s; see predict --help "
                 "for the inputs of %s",
                 p->opened ? " but for those of --inputs" : ", or the others come from --inputs", nnc_program.model);
    return false;
  }
  if (p->reads != p->opened) {
    report_error(p->reads ? "--sample: the inputs of %s beside the text, %s, come from --inputs"
                          : "--sample: %s has no input beside the text, %s, that --inputs could give",
                 nnc_program.model, p->input->name);
    return false;
  }
  for (int i = 0; i < f->n_results && !p->output; i++) {
    const NncTensor *t = &f->results[i];
    if (t->role == NNC_OUTPUT && t->rank == 3 && t->dim[0] == p->input->dim[0] && t->dim[1] == p->input->dim[1])
      p->output = t;
  }
  if (!p->output) {
    report_error("--sample needs scores of the next token after each token, an output [%lld, %lld, tokens]",
                 (long long)p->input->dim[0], (long long)p->input->dim[1]);
    return false;
  }
  p->context = p->input->dim[1];
  p->tokens = p->output->dim[2];
  for (int i = 0; i < nnc_program.n_persistent; i++) p->carries |= nnc_program.persistent[i].carried;
  bool bytes = nnc_program.n_data == 0;
  for (int i = 0; i < nnc_program.n_data; i++) bytes |= strcmp(nnc_program.data[i].reader, "bytes") == 0;
  p->text = bytes && p->tokens <= 256 && p->labels.n == 0;
  return labels_check(&p->labels, p->tokens);
}

// ---------------------------------------------------------------------------------------------------------------------
// The prompt

static void append(Sampler *p, int64_t token) {
  if (p->n == p->capacity) {
    p->capacity = p->capacity ? 2 * p->capacity : 256;
    p->sequence = xrealloc(p->sequence, sizeof *p->sequence * (size_t)p->capacity);
  }
  p->sequence[p->n++] = token;
}

// The longest label that the text begins with; -1: none.
static int64_t find_label(const Labels *l, const char *text, size_t *length) {
  int64_t best = -1;
  *length = 0;
  for (int i = 0; i < l->n; i++) {
    size_t n = strlen(l->names[i]);
    if (n > *length && strncmp(text, l->names[i], n) == 0) best = i, *length = n;
  }
  return best;
}

static bool check_token(const Sampler *p, const char *option, int64_t token, int64_t at) {
  int64_t limit = p->input->limit > 0 ? p->input->limit : p->tokens;
  if (token >= 0 && token < limit) return true;
  report_error("%s: token %lld at position %lld is outside of 0..%lld", option, (long long)token, (long long)at,
               (long long)(limit - 1));
  return false;
}

// The token that stands at `at` in the text of an option, and how long it is there. -1 after reporting.
static int64_t read_token(const Sampler *p, const char *option, const char *text, const char *at, size_t *length) {
  int64_t token;
  char *end;
  *length = 1;
  if (p->text) {
    token = (unsigned char)*at;
  } else if (p->labels.n) {
    token = find_label(&p->labels, at, length);
    if (token < 0) {
      report_error("%s: no label is the beginning of \"%s\"", option, at);
      return -1;
    }
  } else {
    token = strtoll(at, &end, 10);
    if (end == at) {
      report_error("%s: expected the numbers of tokens, found \"%s\"; --labels=FILE gives tokens a text", option, at);
      return -1;
    }
    *length = (size_t)(end - at) + strspn(end, ", ");
  }
  return check_token(p, option, token, at - text) ? token : -1;
}

// A line's end may be written as the file of labels writes it.
static bool read_end(Sampler *p) {
  const char *text = p->o->end;
  size_t length;
  p->end = -1;
  if (!text) return true;
  if ((p->text || p->labels.n) && strcmp(text, "\\n") == 0) text = "\n";
  p->end = read_token(p, "--end", text, text, &length);
  if (p->end < 0 || (*text && !text[length])) return p->end >= 0;
  report_error("--end is one token, found \"%s\"", text);
  return false;
}

static bool read_prompt(Sampler *p) {
  const char *text = p->o->prompt ? p->o->prompt : "";
  for (const char *at = text; *at;) {
    size_t length;
    int64_t token = read_token(p, "--prompt", text, at, &length);
    if (token < 0) return false;
    append(p, token);
    at += length;
  }
  // a text begins with a line
  if (p->n == 0) append(p, p->text && (p->input->limit <= 0 || p->input->limit > '\n') ? '\n' : 0);
  return true;
}

// ---------------------------------------------------------------------------------------------------------------------
// Scores

// Rows beside the beams go along with the first.
static int64_t token_at(const Sampler *p, int64_t row, int64_t k) {
  return p->sequence[(row < p->beams ? row : 0) * p->capacity + k];
}

// The next token of the sequence through decode, at its position.
static bool run_position(Sampler *p) {
  const NncFunction *f = executor_function(p->s.decode);
  for (int i = 0; i < f->n_args; i++) {
    const NncTensor *t = &f->args[i];
    if (t->role != NNC_INPUT) continue;
    for (int64_t k = 0, element = dtype_bytes(t->dtype); k < tensor_elements(t); k++) {
      int64_t value = t->whole ? p->passed : token_at(p, k, p->passed);
      convert_elements(NNC_I64, &value, t->dtype, p->s.arena.base + t->offset + k * element, 1);
    }
  }
  p->passed++;
  return executor_run(p->s.decode, NULL, NULL);
}

// Of beam b: row `row` + b `rows` of the output.
static bool read_scores(Sampler *p, Executor *e, int64_t row, int64_t rows) {
  const NncFunction *f = executor_function(e);
  for (int i = 0; i < f->n_results; i++) {
    const NncTensor *t = &f->results[i];
    if (t->role != NNC_OUTPUT || strcmp(t->name, p->output->name) != 0) continue;
    for (int b = 0; b < p->beams; b++)
      convert_elements(t->dtype, executor_result(e, t) + (row + b * rows) * p->tokens * dtype_bytes(t->dtype), NNC_F64,
                       p->scores + b * p->tokens, p->tokens);
    return true;
  }
  return false;
}

// The model on the tokens from `first` on; `after` stands where the end of the sequence leaves the context empty.
static bool run_model(Sampler *p, int64_t first, int64_t after) {
  const NncFunction *f = executor_function(p->s.predict[0]);
  int64_t elements = tensor_elements(p->input), element = dtype_bytes(p->input->dtype);
  char *at = p->s.arena.base + p->input->offset;
  for (int64_t i = 0; i < elements; i++) {
    int64_t k = first + i % p->context, token = k < p->n ? token_at(p, i / p->context, k) : after;
    convert_elements(NNC_I64, &token, p->input->dtype, at + i * element, 1);
  }
  if (p->reads && !inputs_read(&p->source, f, p->record, p->s.arena.base)) return false;
  session_write_aside(&p->s, f, 0);
  return executor_run(p->s.predict[0], NULL, NULL);
}

static double predicted_seconds(const NncFunction *f) {
  double sum = 0;
  for (int i = 0; i < f->n_steps; i++) sum += f->steps[i].seconds;
  return sum;
}

// What predict has left of the first n positions goes into decode's caches: rows (records, heads, positions) of a
// tensor, of which those behind are zero. By way of memory aside, since one may lie where another goes.
static bool fill_caches(Sampler *p, int64_t n) {
  const NncFunction *from = executor_function(p->s.predict[0]), *to = executor_function(p->s.decode);
  int64_t bytes = 0, at = 0;
  for (int i = 0; i < from->n_results; i++) bytes += from->results[i].role == NNC_CACHE ? from->results[i].bytes : 0;
  char *aside = xmalloc((size_t)bytes);
  for (int i = 0; i < from->n_results; i++) {
    const NncTensor *t = &from->results[i];
    if (t->role != NNC_CACHE) continue;
    memcpy(aside + at, executor_result(p->s.predict[0], t), (size_t)t->bytes);
    at += t->bytes;
  }
  bool ok = true;
  at = 0;
  for (int i = 0; i < to->n_args && ok; i++) {   // in the same order
    const NncTensor *t = &to->args[i];
    if (t->role != NNC_CACHE) continue;
    int64_t row = t->whole ? t->bytes : t->bytes / t->dim[0], text = row * p->context;
    char *cache = p->s.arena.base + t->offset;
    memset(cache, 0, (size_t)t->bytes);
    if (t->whole) memcpy(cache, aside + at, (size_t)t->bytes);
    for (int64_t first = 0; first < t->bytes && !t->whole; first += text)
      memcpy(cache + first, aside + at + first, (size_t)(n * row));
    ok = arena_push(&p->s.arena, t->offset, t->bytes);
    at += t->bytes;
  }
  free(aside);
  return ok;
}

// The beginning of the text at once, where that is quicker than token by token; always of a model that reads more,
// whose caches then hold what it has read.
static bool begins_at_once(const Sampler *p) {
  const NncFunction *all = executor_function(p->s.predict[0]), *one = executor_function(p->s.decode);
  return p->passed == 0 && (p->reads || predicted_seconds(all) < (double)p->n * predicted_seconds(one));
}

// The scores of what follows the sequence, of which the first `passed` tokens are in the caches.
static bool run_cached(Sampler *p) {
  if (begins_at_once(p)) {
    if (!run_model(p, 0, 0)) return false;
    // the scores may lie where the caches go
    if (!read_scores(p, p->s.predict[0], p->n - 1, p->context) || !fill_caches(p, p->n)) return false;
    p->passed = p->n;
    return true;
  }
  while (p->passed < p->n)
    if (!run_position(p)) return false;
  return read_scores(p, p->s.decode, 0, 1);
}

// Where the context begins. States take in whole contexts that are full; one that the sequence ends in is looked at
// without them being changed.
static bool pass_on(Sampler *p, int64_t *first) {
  *first = p->n > p->context ? p->n - p->context : 0;
  if (!p->carries) return true;
  for (; p->n - p->passed > p->context; p->passed += p->context)
    if (!run_model(p, p->passed, 0)) return false;
  *first = p->passed;
  return true;
}

// The scores of what follows the sequence.
bool sampler_run(Sampler *p, int64_t after) {
  int64_t first;
  if (p->s.decode && p->n <= p->context) return run_cached(p);
  if (p->s.decode && !p->told)
    fprintf(stderr,
            "%s: the text is longer than the %lld positions of the program: from here on all of the last %lld are "
            "computed for each token\n",
            report_name(), (long long)p->context, (long long)p->context);
  p->told = true;
  char *saved = NULL;
  if (!pass_on(p, &first) || (p->carries && !session_save_carried(&p->s, &saved))) return false;
  bool ok = run_model(p, first, after);
  if (!session_restore_carried(&p->s, saved) || !ok) return false;
  return read_scores(p, p->s.predict[0], p->n - first - 1, p->context);
}

// A model that sees what comes after a token says nothing about what follows it.
static bool check_causal(Sampler *p) {
  int64_t bytes = p->tokens * (int64_t)sizeof *p->scores;
  if (p->n >= p->context || p->s.decode) return true;   // the compiler has looked
  if (!sampler_run(p, 0)) return false;
  double *first = xmalloc((size_t)bytes);
  memcpy(first, p->scores, (size_t)bytes);
  bool ok = sampler_run(p, 1), same = memcmp(first, p->scores, (size_t)bytes) == 0;
  free(first);
  if (ok && !same)
    report_error("--sample: the scores of %s after a token depend on the tokens behind it; a language model sees those "
                 "before only (causal_mask)",
                 nnc_program.model);
  return ok && same;
}

void sampler_print(const Sampler *p, int64_t token, bool first) {
  if (p->text) putchar((int)token);
  else if (p->labels.n) fputs(p->labels.names[token], stdout);
  else printf("%s%lld", first ? "" : " ", (long long)token);
}

static bool sample(Sampler *p) {
  const DrawOptions options = {p->o->temperature, p->o->top_k, p->o->top_p};
  for (int64_t i = 0; i < p->n; i++) sampler_print(p, p->sequence[i], i == 0);
  for (int64_t i = 0; i < p->o->count && !signals_stop_requested(); i++) {
    if (!sampler_run(p, 0)) return false;
    double uniform = philox_uniform(p->o->seed, philox_stream("sample"), (uint64_t)(p->record * p->o->count + i));
    int64_t token = draw_token(p->scores, p->tokens, &options, uniform);
    if (token < 0) {
      report_error("the scores after token %lld are not finite numbers", (long long)p->n);
      return false;
    }
    if (token == p->end) break;
    append(p, token);
    sampler_print(p, token, false);
    fflush(stdout);
  }
  putchar('\n');
  return !signals_stop_requested();
}

// Room for the beams, each of which begins with the prompt.
static bool make_beams(Sampler *p) {
  int64_t room = p->n + p->o->count, batch = p->input->dim[0];
  if (p->o->beams > batch) {
    report_error("--beams=%lld are rows of a batch, and the program is compiled for a batch of %lld",
                 (long long)p->o->beams, (long long)batch);
    return false;
  }
  if (p->o->beams && p->carries) {
    report_error("--beams is for models without states that go on with a text");
    return false;
  }
  if (!p->o->beams) return true;
  if (p->o->count > INT32_MAX) {
    report_error("--beams keeps whole texts: --sample is at most %d", INT32_MAX);
    return false;
  }
  p->beams = (int)p->o->beams;
  p->sequence = xrealloc(p->sequence, sizeof *p->sequence * (size_t)(p->beams * room));
  p->capacity = room;
  return true;
}

// The text of a record begins with the prompt.
static bool begin_text(Sampler *p, const int64_t *prompt) {
  for (int b = 0; b < p->beams; b++) memcpy(p->sequence + b * p->capacity, prompt, sizeof *prompt * (size_t)p->prompt);
  p->n = p->prompt;
  p->passed = 0;
  return session_begin_text(&p->s, NULL) && (!p->s.decode || session_clear_caches(&p->s));
}

static bool write_texts(Sampler *p, int64_t records) {
  size_t bytes = sizeof *p->sequence * (size_t)p->n;
  int64_t *prompt = memcpy(xmalloc(bytes), p->sequence, bytes);
  p->prompt = p->n;
  bool ok = begin_text(p, prompt) && check_causal(p);
  for (p->record = 0; p->record < records && ok; p->record++)
    ok = begin_text(p, prompt) && (p->o->beams ? beam_search(p) : sample(p));
  free(prompt);
  return ok;
}

static bool open_inputs(Sampler *p) {
  const char *path = p->o->inputs;
  return !path || (p->opened = safetensors_open(path, &p->file));
}

bool sample_text(const SampleOptions *o) {
  Sampler p = {.o = o, .beams = 1};
  const NncFunction *f = program_function("predict");
  int functions = SESSION_PREDICT | (program_function("decode") && !o->recompute ? SESSION_DECODE : 0);
  int64_t records = 1;
  bool ok = labels_open(&p.labels, o->labels) && open_inputs(&p) && find_tensors(&p, f) && read_prompt(&p) &&
            read_end(&p) && make_beams(&p);
  p.source = (InputSource){.file = &p.file, .written = p.input, .alike = true};
  ok = ok && (!p.reads || inputs_check(&p.source, f, &records)) && session_open(&p.s, functions, f, &o->device) &&
       weights_load_given(o->weights, &p.s.arena) && arena_push_persistent(&p.s.arena);
  uint64_t sum = checksum_of(p.sequence, p.n * (int64_t)sizeof *p.sequence) +
                 (ok && p.reads ? ranks_file_sum(o->inputs) : 0);
  ok = ranks_begin_together(ok, &p.s, o->weights, (RankFact){"--sample", (uint64_t)o->count, true},
                            (RankFact){"another prompt", sum, false});
  if (ok) p.scores = xmalloc(sizeof *p.scores * (size_t)(p.beams * p.tokens));
  ok = ok && ranks_end_together(write_texts(&p, records));
  session_close(&p.s);
  labels_close(&p.labels);
  if (p.opened) safetensors_close(&p.file);
  free(p.sequence);
  free(p.scores);
  return ok;
}
