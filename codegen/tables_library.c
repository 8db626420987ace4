// The tables of library ops that are calls: their records, which many steps share, and their steps.
#include <stdio.h>
#include <stdlib.h>

#include "codegen/cost_key.h"
#include "codegen/op_records.h"
#include "codegen/tables.h"
#include "support/text.h"

static void add_pointer(Text *t, const void *pointer) { text_append(t, (const char *)&pointer, sizeof pointer); }

// All that a record and its texts are made of: name, types, attributes that are not for stages, which the context has
// once each, and the workspace.
static const void *signature(MlirOperation op, int64_t workspace) {
  Text t = {0};
  add_pointer(&t, mlirOperationGetName(op).ptr);
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++)
    add_pointer(&t, mlirValueGetType(mlirOperationGetOperand(op, i)).ptr);
  for (intptr_t i = 0; i < mlirOperationGetNumResults(op); i++)
    add_pointer(&t, mlirValueGetType(mlirOperationGetResult(op, i)).ptr);
  for (intptr_t i = 0; i < mlirOperationGetNumAttributes(op); i++) {
    MlirNamedAttribute a = mlirOperationGetAttribute(op, i);
    if (nn_is_stage_attribute(mlirIdentifierStr(a.name))) continue;
    add_pointer(&t, a.name.ptr);
    add_pointer(&t, a.attribute.ptr);
  }
  text_append(&t, (const char *)&workspace, sizeof workspace);
  const void *unique = mlirStringAttrGet(mlirOperationGetContext(op), mlirStringRefCreate(t.data, t.size)).ptr;
  text_free(&t);
  return unique;
}

// The number i of record C<i>, its label CL<i> and its key CK<i>; ops that have all three in common share them. Texts
// are told apart by MLIR's table of strings: equal ones are one attribute. Ops of one signature need no texts.
static int record_id(Tables *w, MlirOperation op, const OpRecord *r, const OpRecordNames *names) {
  int64_t workspace = w->target->library_workspace(w->target, op);
  const void *same = signature(op, workspace);
  int known = ptr_map_get(&w->record_ids, same);
  if (known >= 0) return known;
  Text fields = {0}, label = {0};
  text_add(&label, "%s ", nn_op_info(nn_op_of(op))->name);
  op_record_text(r, workspace, &fields, &label);
  char *key = cost_key(op, nn_null_operation()),
       *text = text_format("%s %s\n%s\n%s", names->type, text_c_string(&fields), text_c_string(&label), key);
  const void *unique = mlirStringAttrGet(mlirOperationGetContext(op), nn_string_ref(text)).ptr;
  int id = ptr_map_get(&w->record_ids, unique);
  if (id < 0) {
    id = w->n_records++;
    ptr_map_set(&w->record_ids, unique, id);
    text_add(&w->records, "static const %s C%d = {%s};\nstatic const char CL%d[] = ", names->type, id,
             text_c_string(&fields), id);
    text_quoted(&w->records, text_c_string(&label));
    text_add(&w->records, ", CK%d[] = ", id);
    text_quoted(&w->records, key);
    text_add(&w->records, ";\n");
  }
  ptr_map_set(&w->record_ids, same, id);
  free(text);
  free(key);
  text_free(&fields);
  text_free(&label);
  return id;
}

// Its operands, then its results. What is added to an operand finds that in the result's buffer: copied there by a step
// of its own, where the plan does not have both in one place.
static int add_operands(Tables *w, MlirOperation op) {
  int adds_to = nn_op_adds_to(nn_op_of(op));
  if (adds_to >= 0) {
    MlirValue sum = mlirOperationGetOperand(op, adds_to);
    NnType type = nn_value_type(sum);
    int64_t from = tables_offset(w, sum), to = tables_offset(w, mlirOperationGetResult(op, 0));
    if (from != to) tables_add_copy(w, from, to, nn_type_bytes(&type));
  }
  return tables_add_values(w, op, adds_to);
}

void tables_add_library(Tables *w, const NnStep *s) {
  int first = add_operands(w, s->op);
  OpRecord record = op_record(s->op);
  OpRecordNames names = op_record_names(record.kind);
  int id = record_id(w, s->op, &record, &names);
  char label[16], key[16];
  snprintf(label, sizeof label, "CL%d", id), snprintf(key, sizeof key, "CK%d", id);
  tables_begin_step(w, &(StepHead){names.kind, label, w->n_buffers - first, first, tables_workspace(w, s->op),
                                   nn_op_flops(s->op), nn_op_bytes(s->op), target_seconds(w->target, s->op),
                                   s->recomputed, key, s->op});
  text_add(&w->steps, ".%s=&C%d", names.field, id);
  if (record.kind == NNC_STEP_COLLECTIVE && w->target->collective_kernel) tables_add_collective_launch(w, s->op);
  tables_end_step(w, first);
}
