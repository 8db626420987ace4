// What the two files of the `data` and `eval` lines share: elaborate_data.c, which finds the types of their inputs, and
// elaborate_data_lines.c, which reads their arguments.
#ifndef NNC_COMPILER_ELABORATE_DATA_H
#define NNC_COMPILER_ELABORATE_DATA_H

#include "compiler/elaborate_internal.h"

typedef enum Reader {
  READER_IDX,
  READER_NPY,
  READER_NPZ,
  READER_SAFETENSORS,
  READER_HDF5,
  READER_BYTES,
  READER_TOKENS,
  READER_IMAGES,
  READER_CSV,
  READERS
} Reader;
typedef struct ReaderKind {
  const char *name;
  bool has_dtype;
  NnDtype dtype;
  bool has_fields;   // a file has tensors by name: those of `fields`, else of the inputs
  const char *use;
} ReaderKind;
extern const ReaderKind data_readers[READERS];

bool data_is_text(int reader);   // its records are cut from one row of tokens
bool data_is_data(const AstStmt *s);
bool data_is_eval(const AstStmt *s);
bool data_reader_of(Elaborator *e, const AstStmt *s, Reader *out);                // reports
DataInput *data_find_input(int n, DataInput *inputs, const char *name);           // NULL: none
bool data_is_target(const AstStmt *s, const char *name);                          // a name that the line gives
const DataInput *data_batched_input(int n, const DataInput *inputs);              // NULL when all are whole
bool data_option_flag(Elaborator *e, const CallArg *a, bool *flag);               // true or false; reports
bool data_check_argument_names(Elaborator *e, const AstStmt *s, Reader reader);   // reports

#endif
