#include "codegen/library.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/output.h"
#include "support/alloc.h"
#include "support/bytes.h"
#include "support/version.h"

static bool ends_with(const char *text, const char *end) {
  size_t n = strlen(text), m = strlen(end);
  return n >= m && strcmp(text + n - m, end) == 0;
}

bool library_is_static(const CodegenOptions *options) { return ends_with(options->output, ".a"); }

static char *text_attribute(MlirModule module, const char *name, const char *otherwise) {
  MlirAttribute a = nn_attribute(mlirModuleGetOperation(module), name);
  if (mlirAttributeIsNull(a) || !mlirAttributeIsAString(a)) return copy_string(otherwise);
  MlirStringRef s = mlirStringAttrGetValue(a);
  return text_format("%.*s", (int)s.length, s.data);
}

void library_write_table(MlirModule module, const CodegenOptions *options, const char *target, Text *out) {
  char *model = text_attribute(module, ATTR_model, "model"),
       *source = text_attribute(module, ATTR_source, options->source_name ? options->source_name : "");
  text_add(out, "#include \"runtime/model_functions.h\"\nNNC_MODEL_TABLE(%s_model, \"%s\", ", model, model);
  text_quoted(out, source);
  text_add(out, ", \"%s\", \"%s\");\n", NNC_VERSION, target);
  free(model);
  free(source);
}

// "//   image: f32 [128, 784]"
static void add_tensor(Text *t, MlirAttribute name, MlirValue value) {
  NnType n = nn_value_type(value);
  MlirStringRef s = mlirStringAttrGetValue(name);
  text_add(t, "//   %.*s: %s [", (int)s.length, s.data, nn_dtype_name(n.dtype));
  for (int i = 0; i < n.rank; i++) text_add(t, "%s%lld", i ? ", " : "", (long long)n.dim[i]);
  text_add(t, "]\n");
}

static void add_inputs(Text *t, MlirOperation func) {
  char role[32], function[256];
  nn_attr_str(func, "sym_name", function, sizeof function, "");
  bool any = false;
  MlirBlock body = mlirRegionGetFirstBlock(mlirOperationGetRegion(func, 0));
  for (int a = 0; a < (int)mlirBlockGetNumArguments(body); a++) {
    if (strcmp(nn_arg_str(func, a, ATTR_role, role, sizeof role, ""), "input") != 0) continue;
    if (!any) text_add(t, "// Inputs of @%s, of one batch:\n", function);
    any = true;
    add_tensor(t, nn_arg_attr(func, a, ATTR_name), mlirBlockGetArgument(body, a));
  }
}

bool library_write_parts(MlirModule module, const char *folder) {
  char *model = text_attribute(module, ATTR_model, "model"), *source = text_attribute(module, ATTR_source, ""),
       *exports = text_format("%s/exports", folder), *declaration = text_format("%s/declaration", folder), size[32];
  Text list = {0}, header = {0};
  text_add(&list, "{ global: %s_model; nnc_library_model; local: *; };\n", model);
  text_add(&header,
           "\n#ifndef NNC_MODEL_%s\n#define NNC_MODEL_%s\n// The model %s of %s, compiled by nnc %s. Its arena: %s\n",
           model, model, model, source, NNC_VERSION,
           print_bytes(nn_attr_i64(mlirModuleGetOperation(module), ATTR_arena, 0), size, sizeof size));
  if (!mlirOperationIsNull(nn_module_train(module))) add_inputs(&header, nn_module_train(module));
  NN_FOREACH_OP (func, mlirModuleGetBody(module))
    if (nn_is(func, "func.func") && nn_is_predict(func)) add_inputs(&header, func);
  text_add(&header,
           "#ifdef __cplusplus\nextern \"C\" const nnc_model %s_model;\n#else\nextern const nnc_model "
           "%s_model;\n#endif\n#endif\n",
           model, model);
  bool ok = output_write_text(exports, &list) && output_write_text(declaration, &header);
  text_free(&list);
  text_free(&header);
  free(model);
  free(source);
  free(exports);
  free(declaration);
  return ok;
}

static bool append_file(Text *out, const char *path) {
  FILE *f = fopen(path, "r");
  char buf[4096];
  size_t n;
  while (f && (n = fread(buf, 1, sizeof buf, f)) > 0) text_append(out, buf, n);
  bool ok = f && !ferror(f);
  if (f) fclose(f);
  if (!ok) fprintf(stderr, "nnc: error: cannot read '%s': %s\n", path, strerror(errno));
  return ok;
}

char *library_header_path(const char *output) {
  const char *slash = strrchr(output, '/'), *dot = strrchr(output, '.');
  int stem = (int)(dot && (!slash || dot > slash + 1) ? dot - output : (ptrdiff_t)strlen(output));
  return text_format("%.*s.h", stem, output);
}

bool library_write_header(const CodegenOptions *options, const char *folder, const char *include) {
  char *path = library_header_path(options->output), *interface = text_format("%s/runtime/nnc.h", include),
       *declaration = text_format("%s/declaration", folder);
  Text header = {0};
  bool ok = append_file(&header, interface) && append_file(&header, declaration) && output_write_text(path, &header);
  text_free(&header);
  free(path);
  free(interface);
  free(declaration);
  return ok;
}

char *library_symbol(const char *folder) {
  char *path = text_format("%s/exports", folder);
  Text text = {0};
  static const char before[] = "{ global: ";
  bool ok = append_file(&text, path);
  char *symbol = NULL;
  if (ok) {
    const char *name = text_c_string(&text) + sizeof before - 1;
    symbol = text_format("%.*s", (int)strcspn(name, ";"), name);
  }
  text_free(&text);
  free(path);
  return symbol;
}
