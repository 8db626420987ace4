// What a library has that an executable has not: the table of its functions, the list of what it offers to linkers, and
// its header.
#ifndef NNC_CODEGEN_LIBRARY_H
#define NNC_CODEGEN_LIBRARY_H

#include "codegen/codegen.h"
#include "support/text.h"

bool library_is_static(const CodegenOptions *options);   // libmodel.a
// Of program.c: the table, under the name of the one symbol.
void library_write_table(MlirModule module, const CodegenOptions *options, const char *target, Text *out);
// Into the folder of the link: `exports`, which tells the linker the symbols, and `declaration`, the end of the header.
// False after reporting.
bool library_write_parts(MlirModule module, const char *folder);
// Where the header of a library goes. Owned by the caller.
char *library_header_path(const char *output);
// After a link went well: the header, beside the library and under its name with .h; include: the folder that has
// runtime/nnc.h. False after reporting.
bool library_write_header(const CodegenOptions *options, const char *folder, const char *include);
// The name of the symbol, as `exports` has it first. Owned by the caller; NULL after reporting.
char *library_symbol(const char *folder);

#endif
