// A cursor over JSON text; see json.h. It never reads beyond `end`, whatever the text.
#include "runtime/json.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/runtime.h"

static bool fail(JsonCursor *j, const char *what) {
  if (!j->error) j->error = what;
  return false;
}

static void skip_blanks(JsonCursor *j) {
  while (j->at < j->end && (*j->at == ' ' || *j->at == '\n' || *j->at == '\t' || *j->at == '\r')) j->at++;
}

bool json_take(JsonCursor *j, char c) {
  skip_blanks(j);
  if (j->error || j->at >= j->end || *j->at != c) return false;
  j->at++;
  return true;
}

bool json_expect(JsonCursor *j, char c) {
  if (json_take(j, c)) return true;
  return fail(j, c == ':'   ? "':' expected"
                 : c == '{' ? "'{' expected"
                 : c == '[' ? "'[' expected"
                            : "unexpected character");
}

static int hex4(const JsonCursor *j) {
  int v = 0;
  for (int i = 0; i < 4; i++) {
    if (j->at + i >= j->end) return -1;
    char c = j->at[i];
    int d = c >= '0' && c <= '9'   ? c - '0'
            : c >= 'a' && c <= 'f' ? c - 'a' + 10
            : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                   : -1;
    if (d < 0) return -1;
    v = v * 16 + d;
  }
  return v;
}

static char *put_utf8(char *out, unsigned c) {
  if (c < 0x80) {
    *out++ = (char)c;
  } else if (c < 0x800) {
    *out++ = (char)(0xC0 | c >> 6);
    *out++ = (char)(0x80 | (c & 63));
  } else if (c < 0x10000) {
    *out++ = (char)(0xE0 | c >> 12);
    *out++ = (char)(0x80 | (c >> 6 & 63));
    *out++ = (char)(0x80 | (c & 63));
  } else {
    *out++ = (char)(0xF0 | c >> 18);
    *out++ = (char)(0x80 | (c >> 12 & 63));
    *out++ = (char)(0x80 | (c >> 6 & 63));
    *out++ = (char)(0x80 | (c & 63));
  }
  return out;
}

// After the backslash. An escape of 2 or 6 characters never decodes to more bytes than it has.
static char *escape(JsonCursor *j, char *out) {
  static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
  if (j->at >= j->end) return NULL;
  char c = *j->at++;
  const char *known = c ? strchr(from, c) : NULL;
  if (known) {
    *out++ = to[known - from];
    return out;
  }
  if (c != 'u') return NULL;
  int v = hex4(j);
  if (v <= 0) return NULL;   // \u0000 cannot be part of a name
  j->at += 4;
  unsigned code = (unsigned)v;
  if (v >= 0xD800 && v < 0xDC00 && j->end - j->at >= 6 && j->at[0] == '\\' && j->at[1] == 'u') {
    j->at += 2;
    int low = hex4(j);
    if (low < 0xDC00 || low > 0xDFFF) return NULL;
    j->at += 4;
    code = 0x10000 + ((code - 0xD800) << 10) + ((unsigned)low - 0xDC00);
  }
  return put_utf8(out, code);
}

char *json_string(JsonCursor *j) {
  if (!json_take(j, '"')) {
    fail(j, "string expected");
    return NULL;
  }
  const char *close = j->at;
  while (close < j->end && *close != '"') close += *close == '\\' ? 2 : 1;
  if (close >= j->end) {
    fail(j, "string without an end");
    return NULL;
  }
  char *text = xmalloc((size_t)(close - j->at) + 1), *out = text;
  while (j->at < close) {
    char c = *j->at++;
    if (c != '\\') {
      if (c == 0) out = NULL;
      else *out++ = c;
    } else {
      out = escape(j, out);
    }
    if (!out) {
      fail(j, "bad character in a string");
      free(text);
      return NULL;
    }
  }
  j->at = close + 1;
  *out = 0;
  return text;
}

bool json_integer(JsonCursor *j, int64_t *out) {
  skip_blanks(j);
  if (j->at >= j->end || *j->at < '0' || *j->at > '9') return fail(j, "non-negative integer expected");
  int64_t v = 0;
  for (; j->at < j->end && *j->at >= '0' && *j->at <= '9'; j->at++) {
    if (v > ((int64_t)1 << 62) / 10 - 1) return fail(j, "number too large");
    v = v * 10 + (*j->at - '0');
  }
  *out = v;
  return true;
}

bool json_skip(JsonCursor *j, int depth) {
  skip_blanks(j);
  if (depth <= 0) return fail(j, "nested too deeply");
  if (j->at >= j->end) return fail(j, "text ends early");
  if (*j->at == '"') {
    char *s = json_string(j);
    free(s);
    return s != NULL;
  }
  if (*j->at == '{' || *j->at == '[') {
    char open = *j->at++, close = open == '{' ? '}' : ']';
    if (json_take(j, close)) return true;
    do {
      if (open == '{') {
        char *key = json_string(j);
        free(key);
        if (!key || !json_expect(j, ':')) return false;
      }
      if (!json_skip(j, depth - 1)) return false;
    } while (json_take(j, ','));
    return json_expect(j, close);
  }
  const char *start = j->at;
  while (j->at < j->end &&
         (strchr("+-.eE", *j->at) || (*j->at >= '0' && *j->at <= '9') || (*j->at >= 'a' && *j->at <= 'z')))
    j->at++;
  return j->at > start || fail(j, "value expected");
}
