// Data sets: finds the files of a split, reads them once into memory in the type they have, checks them against the
// inputs they feed, and copies shuffled records into the arena, converting on the way. Images stay bytes until then.
#include <stdlib.h>
#include <string.h>

#include "runtime/runtime.h"

bool dataset_files_exist(const char *split, const char *folder) {
  bool any = false;
  for (int i = 0; i < nnc_program.n_data; i++) {
    const NncData *d = &nnc_program.data[i];
    if (strcmp(d->split, split) != 0) continue;
    any = true;
    for (int k = 0; k < d->n_files; k++) {
      DataPaths paths = {0};
      bool found = data_find(d->files[k], folder, &paths);
      data_paths_free(&paths);
      if (!found) return false;
    }
  }
  return any;
}

static bool data_spared(const NncData *d, const char *folder, const char *path) {
  bool spared = true;
  for (int k = 0; k < d->n_files; k++) {
    DataPaths paths = {0};
    if (data_find(d->files[k], folder, &paths))
      for (int i = 0; i < paths.n; i++) spared = spared && output_spares(path, paths.paths[i]);
    data_paths_free(&paths);
  }
  return spared;
}

bool dataset_spared(const char *folder, const char *path) {
  for (int i = 0; path && i < nnc_program.n_data; i++)
    if (!data_spared(&nnc_program.data[i], folder, path)) return false;
  return true;
}

const NncTensor *function_input(const NncFunction *f, const char *name) {
  for (int i = 0; i < f->n_args; i++)
    if (f->args[i].role == NNC_INPUT && strcmp(f->args[i].name, name) == 0) return &f->args[i];
  return NULL;
}

// ---------------------------------------------------------------------------------------------------------------------
// Checks

// Dimensions of 1 do not count: a 28x28 image feeds an input of 1x28x28.
static bool same_record_shape(const NncTensor *input, const Column *c) {
  int i = input->whole ? 0 : 1, j = 0;
  for (;;) {
    while (i < input->rank && input->dim[i] == 1) i++;
    while (j < c->rank && c->dim[j] == 1) j++;
    if (i == input->rank || j == c->rank) return i == input->rank && j == c->rank;
    if (input->dim[i++] != c->dim[j++]) return false;
  }
}

static bool check_record(const NncTensor *input, const Column *c) {
  char found[128], expected[128];
  if (!same_record_shape(input, c)) {
    report_error("%s: a record has shape %s, input %s expects %s", c->path,
                 format_shape(c->rank, c->dim, found, sizeof found), input->name,
                 format_shape(input->rank - !input->whole, input->dim + !input->whole, expected, sizeof expected));
    return false;
  }
  if (!dtype_convertible(c->dtype, input->dtype)) {
    // of bytes the reader may be told another type, as idx files need; others have theirs from the model
    const char *wide = dtype_is_float(c->dtype) ? "f32" : "i32";
    char hint[160] = "";
    if (input->dtype == NNC_U8)
      snprintf(hint, sizeof hint, "; %.100s=%s[…] in the program's data line reads them", input->name, wide);
    report_error("%s: values are %s, input %s is %s%s", c->path, dtype_name(c->dtype), input->name,
                 dtype_name(input->dtype), hint);
    return false;
  }
  warn_of_rounding(c->path, c->dtype, input);
  return true;
}

bool column_check_limit(const Column *c, const NncTensor *input, int64_t record, const char *values) {
  int64_t element = dtype_bytes(c->dtype), value, byte;
  int64_t i = tensor_find_outside(input, c->dtype, values, c->record_bytes / element, &value);
  if (i < 0) return true;
  const char *path = data_place(c, record, i * element, &byte);
  char place[48] = "", bounds[96];
  if (byte >= 0) snprintf(place, sizeof place, " (byte %lld)", (long long)byte);
  report_error("%s: record %lld%s: %s %lld is outside of %s", path, (long long)(c->first_record + record), place,
               input->name, (long long)value, tensor_bounds_text(input, bounds, sizeof bounds));
  return false;
}

// Records that stay in their files are checked when they are read.
static bool check_limit(const NncTensor *input, const Column *c) {
  for (int64_t r = 0; r < c->records && c->values; r++)
    if (!column_check_limit(c, input, r, c->values + r * c->record_bytes)) return false;
  return true;
}

// ---------------------------------------------------------------------------------------------------------------------
// Data sets

bool dataset_has_split(const char *split) {
  for (int i = 0; i < nnc_program.n_data; i++)
    if (strcmp(nnc_program.data[i].split, split) == 0) return true;
  return false;
}

int64_t function_batch(const NncFunction *f) {
  for (int i = 0; i < f->n_args; i++)
    if (f->args[i].role == NNC_INPUT && f->args[i].rank > 0 && !f->args[i].whole) return f->args[i].dim[0];
  return nnc_program.batch;
}

bool function_is_whole(const NncFunction *f) {
  bool any = false;
  for (int i = 0; i < f->n_args; i++) {
    if (f->args[i].role != NNC_INPUT) continue;
    any = true;
    if (!f->args[i].whole) return false;
  }
  return any;
}

// A function of whole inputs, such as one of a graph, has the rows of its first output: the nodes.
int64_t function_rows(const NncFunction *f) {
  for (int i = 0; function_is_whole(f) && i < f->n_results; i++)
    if (f->results[i].role == NNC_OUTPUT && f->results[i].rank > 0) return f->results[i].dim[0];
  return function_batch(f);
}

bool function_has_inputs(const NncFunction *f) {
  for (int i = 0; i < f->n_args; i++)
    if (f->args[i].role == NNC_INPUT) return true;
  return false;
}

static bool is_named(int n, const char *const *names, const char *name) {
  for (int i = 0; i < n; i++)
    if (strcmp(names[i], name) == 0) return true;
  return false;
}

static bool add_line(Dataset *d, const NncData *line, const NncFunction *f, const char *folder) {
  size_t n = (size_t)(d->n_columns + line->n_names);
  d->columns = xrealloc(d->columns, sizeof *d->columns * n);
  d->names = xrealloc(d->names, sizeof *d->names * n);
  Column *columns = d->columns + d->n_columns;
  memset(columns, 0, sizeof *columns * (size_t)line->n_names);
  for (int i = 0; i < line->n_names; i++) d->names[d->n_columns + i] = line->names[i];
  d->n_columns += line->n_names;
  if (!data_read_line(line, f, folder, columns)) return false;
  for (int i = 0; i < line->n_names; i++) {
    const NncTensor *input = function_input(f, line->names[i]);
    if (input && (!check_record(input, &columns[i]) || !check_limit(input, &columns[i]))) return false;
    if (is_named(line->n_flipped, line->flipped, line->names[i])) columns[i].flip = line->flip;
    if (is_named(line->n_cropped, line->cropped, line->names[i])) columns[i].crop = line->crop;
  }
  return true;
}

// Every input must be fed, and all columns must have one number of records.
static bool check_columns(Dataset *d, const NncFunction *f) {
  for (int i = 0; i < f->n_args; i++) {
    if (f->args[i].role != NNC_INPUT) continue;
    bool found = false;
    for (int k = 0; k < d->n_columns; k++) found |= strcmp(d->names[k], f->args[i].name) == 0;
    if (!found) {
      report_error("the %s data does not give input %s", d->split, f->args[i].name);
      return false;
    }
  }
  int first = 0;   // of those with records; whole tensors go with every batch
  while (first < d->n_columns - 1 && d->columns[first].whole) first++;
  d->records = d->n_columns ? d->columns[first].records : 0;
  for (int k = first + 1; k < d->n_columns; k++)
    if (!d->columns[k].whole && d->columns[k].records != d->records) {
      report_error("%s has %lld records, %s has %lld", d->columns[first].path, (long long)d->records,
                   d->columns[k].path, (long long)d->columns[k].records);
      return false;
    }
  if (d->records == 0 || d->records > UINT32_MAX) {
    report_error("the %s data has %lld records", d->split, (long long)d->records);
    return false;
  }
  return true;
}

// Room for the largest image that is moved.
static void make_room_to_move(Dataset *d) {
  int64_t bytes = 0;
  for (int k = 0; k < d->n_columns; k++)
    if ((d->columns[k].flip > 0 || d->columns[k].crop > 0) && d->columns[k].record_bytes > bytes)
      bytes = d->columns[k].record_bytes;
  if (bytes) d->moved = xmalloc((size_t)bytes);
  d->bytes += bytes;
}

static void make_order(Dataset *d) {
  if (d->order) return;
  d->order = xmalloc(sizeof *d->order * (size_t)d->records);
  d->bytes += (int64_t)sizeof *d->order * d->records;
}

// One part of the records per row of a batch; what cannot be divided is left out.
static bool order_rows(Dataset *d, int64_t rows) {
  int64_t batches = d->records / rows, n = 0;
  if (batches == 0) {
    report_error("the %s data has %lld records, a batch of texts that go on takes %lld", d->split,
                 (long long)d->records, (long long)rows);
    return false;
  }
  d->records = batches * rows;
  make_order(d);
  for (int64_t k = 0; k < batches; k++)
    for (int64_t i = 0; i < rows; i++) d->order[n++] = (uint32_t)(i * batches + k);
  return true;
}

// The part of the records that a program with `validation` trains on, or the rest of them.
static void choose_members(Dataset *d, int64_t all, int64_t validation, bool rest) {
  uint32_t *perm = xmalloc(sizeof *perm * (size_t)all);
  char *left_out = xcalloc((size_t)all, 1);
  if (d->continued)
    for (int64_t i = 0; i < all; i++) perm[i] = (uint32_t)(all - 1 - i);
  else philox_permutation((uint64_t)nnc_program.seed, philox_stream("validation"), perm, all);
  for (int64_t i = 0; i < validation; i++) left_out[perm[i]] = 1;
  d->records = rest ? validation : all - validation;
  d->members = xmalloc(sizeof *d->members * (size_t)d->records);
  d->bytes += (int64_t)sizeof *d->members * d->records;
  for (int64_t i = 0, n = 0; i < all; i++)
    if (left_out[i] == rest) d->members[n++] = (uint32_t)i;
  free(left_out);
  free(perm);
}

static int64_t validation_records(int64_t all) { return (int64_t)((double)all * nnc_program.validation + 0.5); }

static bool leave_out_validation(Dataset *d) {
  int64_t all = d->records, n = validation_records(all);
  if (n == 0 || n == all) {
    report_error("validation %g of %lld records leaves none to %s", nnc_program.validation, (long long)all,
                 n ? "train on" : "evaluate");
    return false;
  }
  choose_members(d, all, n, false);
  return true;
}

// The threads for what stays in files, as the lines of a split ask for.
static bool read_ahead(Dataset *d, const char *split, const NncFunction *f) {
  int threads = 0, factor = 0;
  bool any = false, skip = false;
  for (int k = 0; k < d->n_columns; k++) any |= d->columns[k].fetch != NULL;
  for (int i = 0; i < nnc_program.n_data && any; i++) {
    const NncData *line = &nnc_program.data[i];
    if (strcmp(line->split, split) != 0) continue;
    if (line->num_workers > threads) threads = line->num_workers;
    if (line->prefetch_factor > factor) factor = line->prefetch_factor;
    skip |= line->skip_broken;
  }
  if (!any) return true;
  d->ahead = ahead_create(d, f, threads, threads * factor, skip);
  if (!d->ahead) return false;
  d->bytes += ahead_wait(d->ahead).bytes;
  return true;
}

bool dataset_validation(const Dataset *train, const NncFunction *f, Dataset *d) {
  int64_t all = train->columns[0].records;
  *d = (Dataset){.split = "validation", .n_columns = train->n_columns, .continued = train->continued};
  d->columns = xcalloc((size_t)d->n_columns, sizeof *d->columns);
  d->names = xcalloc((size_t)d->n_columns, sizeof *d->names);
  for (int k = 0; k < d->n_columns; k++) {
    d->names[k] = train->names[k];
    d->columns[k] = train->columns[k];
    d->columns[k].path = xstrdup(train->columns[k].path);   // also where images of a folder are read from
    d->columns[k].borrows = true, d->columns[k].block_bytes = 0;
    d->columns[k].flip = 0, d->columns[k].crop = 0;
  }
  choose_members(d, all, validation_records(all), true);
  return (!d->continued || order_rows(d, function_batch(f))) && read_ahead(d, "train", f);
}

bool dataset_load(const char *split, const NncFunction *f, const char *folder, Dataset *d) {
  memset(d, 0, sizeof *d);
  d->split = split;
  bool ok = dataset_has_split(split);
  if (!ok && !function_has_inputs(f)) {   // it draws what it learns from: each step is its own record
    d->records = 1;
    return true;
  }
  if (!ok) report_error("%s names no %s data", nnc_program.source, split);
  for (int i = 0; i < nnc_program.n_data && ok; i++)
    if (strcmp(nnc_program.data[i].split, split) == 0) ok = add_line(d, &nnc_program.data[i], f, folder);
  ok = ok && check_columns(d, f);
  for (int i = 0; i < nnc_program.n_data; i++)
    d->continued |= strcmp(nnc_program.data[i].split, split) == 0 && nnc_program.data[i].continued;
  for (int k = 0; k < d->n_columns; k++) {
    const Column *c = &d->columns[k];
    d->bytes += c->block_bytes;
    for (int i = 0; i < c->n_pieces && !c->borrows; i++) d->bytes += c->pieces[i].store ? c->pieces[i].store->bytes : 0;
  }
  if (ok && nnc_program.validation > 0 && strcmp(split, "train") == 0) ok = leave_out_validation(d);
  if (ok && d->continued) ok = order_rows(d, function_batch(f));
  if (ok) make_room_to_move(d);
  ok = ok && read_ahead(d, split, f);
  if (!ok) dataset_free(d);
  return ok;
}

void dataset_free(Dataset *d) {
  ahead_destroy(d->ahead);
  for (int k = 0; k < d->n_columns; k++) data_column_free(&d->columns[k]);
  free(d->columns);
  free(d->names);
  free(d->members);
  free(d->order);
  free(d->moved);
  memset(d, 0, sizeof *d);
}

// What is read ahead is ordered by those who read it.
void dataset_shuffle(Dataset *d, uint64_t seed, uint64_t epoch) {
  d->seed = seed, d->epoch = epoch;
  if (!d->shuffled) d->shuffled = true;   // the threads that read ahead look at it
  if (d->continued) return;
  make_order(d);
  if (!d->ahead) philox_permutation(seed, philox_stream("shuffle") + epoch, d->order, d->records);
}

void dataset_sequence(Dataset *d, int64_t offset, int64_t stride, int64_t per_epoch) {
  if (d->ahead) ahead_sequence(d->ahead, offset, stride, per_epoch);
}

const char *dataset_move(const Column *c, const NncTensor *input, uint64_t seed, uint64_t epoch, int64_t record,
                         const char *values, char *to) {
  int64_t height = input->dim[input->rank - 2], width = input->dim[input->rank - 1], element = dtype_bytes(c->dtype);
  augment_move(augment_draw(c, seed, epoch, c->first_record + record), c->record_bytes / (height * width * element),
               height, width, element, values, to);
  return to;
}

// The values of a record as this epoch has them: in the column, or moved. input: [batch, …, height, width].
static const char *record_values(const Dataset *d, const Column *c, const NncTensor *input, int64_t record) {
  const char *values = c->values + record * c->record_bytes;
  if ((c->flip <= 0 && c->crop <= 0) || !d->order) return values;
  return dataset_move(c, input, d->seed, d->epoch, record, values, d->moved);
}

bool dataset_fill(const Dataset *d, const NncFunction *f, int64_t first, int64_t fill, char *arena) {
  if (d->ahead) return ahead_fill(d->ahead, f, first, fill, arena);
  for (int k = 0; k < d->n_columns; k++) {
    const NncTensor *input = function_input(f, d->names[k]);
    const Column *c = &d->columns[k];
    if (!input) continue;   // the loss does not read it
    if (c->whole) {
      stage_record(input, c->dtype, c->values, arena + input->offset, tensor_elements(input));
      continue;
    }
    int64_t batch = input->dim[0], to_bytes = input->bytes / batch, elements = to_bytes / dtype_bytes(input->dtype);
    for (int64_t i = 0; i < batch; i++) {
      int64_t at = first + i < d->records ? first + i : fill;
      int64_t member = d->order ? d->order[at] : at, record = d->members ? d->members[member] : member;
      stage_record(input, c->dtype, record_values(d, c, input, record), arena + input->offset + i * to_bytes, elements);
    }
  }
  return true;
}
