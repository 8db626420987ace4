// The names of attributes; ir.h.
#include <string.h>

#include "ir/ir.h"

#define NN_ATTRIBUTE(name, on, type, written_by, read_by, doc) const char ATTR_##name[] = "nn." #name;
#include "ir/attributes.def"
#undef NN_ATTRIBUTE

bool nn_is_stage_attribute(MlirStringRef name) { return name.length > 3 && !memcmp(name.data, "nn.", 3); }
