// The wire format of protobuf, as far as ONNX needs it: variable-length integers, 32 bits, bytes.
#include <stdint.h>
#include <string.h>

#include "codegen/onnx/onnx.h"

enum { WIRE_VARINT = 0, WIRE_BYTES = 2, WIRE_32 = 5 };

static void put_varint(Text *t, uint64_t v) {
  char bytes[10];
  size_t n = 0;
  for (; v >= 128; v >>= 7) bytes[n++] = (char)(v | 128);
  bytes[n++] = (char)v;
  text_append(t, bytes, n);
}

static void put_key(Text *t, int field, int wire) { put_varint(t, (uint64_t)(field << 3 | wire)); }

void protobuf_int(Text *t, int field, int64_t v) {
  put_key(t, field, WIRE_VARINT);
  put_varint(t, (uint64_t)v);
}

void protobuf_float(Text *t, int field, float v) {
  put_key(t, field, WIRE_32);
  text_append(t, (const char *)&v, sizeof v);
}

void protobuf_bytes(Text *t, int field, const void *data, size_t n) {
  put_key(t, field, WIRE_BYTES);
  put_varint(t, n);
  if (n) text_append(t, data, n);
}

void protobuf_string(Text *t, int field, const char *s) { protobuf_bytes(t, field, s, strlen(s)); }

void protobuf_message(Text *t, int field, Text *inner) {
  protobuf_bytes(t, field, inner->data, inner->size);
  text_free(inner);
}
