// Names of weight layouts. A name lists the axes from outermost to innermost: o and i channels, d, h and w; a capital
// letter is split, its inner blocks follow with their sizes: "OIhw16i16o" is (o/16, i/16, h, w, 16 of i, 16 of o). A
// leading g is the group.
#include "runtime/library_internal.h"

#include <ctype.h>
#include <oneapi/dnnl/dnnl_debug.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// oneDNN's own names number the axes a, b, c …; with groups the first axis is the group.
static const char number_letters[] = "abcdef";
static const char *axis_letters(const NncConv *c) {
  static const char *const letters[2][2] = {{"oihw", "goihw"}, {"oidhw", "goidhw"}};
  return letters[nnc_conv_is_3d(c)][c->groups > 1];
}

// Rewrites a name between the two spellings. False when a letter has no counterpart or the result does not fit.
static bool translate(const char *name, const char *from, const char *to, char *buf, size_t size) {
  size_t n = 0;
  for (; name[n]; n++) {
    if (n + 1 >= size) return false;
    const char *at = strchr(from, tolower((unsigned char)name[n]));
    if (isdigit((unsigned char)name[n])) buf[n] = name[n];
    else if (at && (size_t)(at - from) < strlen(to))
      buf[n] = isupper((unsigned char)name[n]) ? (char)toupper((unsigned char)to[at - from]) : to[at - from];
    else return false;
  }
  buf[n] = 0;
  return n > 0;
}

static int weight_dims(const NncConv *c, dnnl_dims_t dims) {
  int g = c->groups > 1;
  if (g) dims[0] = c->groups;
  dims[g] = c->o / c->groups;
  dims[g + 1] = c->c / c->groups;
  NncConvAxis axes[NNC_CONV_AXES];
  int n = nnc_conv_axes(c, axes);
  for (int i = 0; i < n; i++) dims[g + 2 + i] = axes[i].kernel;
  return g + 2 + n;
}

// "oihw" is row-major, whatever axes there are: that of the group is the leading part of o.
static const char *full_spelling(const char *layout, const NncConv *c) {
  return strcmp(layout, "oihw") == 0 ? axis_letters(c) : layout;
}

bool library_weights_desc(const char *layout, const NncConv *c, dnnl_memory_desc_t *out) {
  char tag_name[NNC_LAYOUT_SIZE];
  if (!translate(full_spelling(layout, c), axis_letters(c), number_letters, tag_name, sizeof tag_name)) return false;
  dnnl_dims_t dims;
  int rank = weight_dims(c, dims);
  dnnl_data_type_t type = (c->pass == NNC_CONV_WEIGHT_GRAD ? c->result : c->dtype) == NNC_BF16 ? dnnl_bf16 : dnnl_f32;
  for (int tag = dnnl_format_tag_any + 1; tag < dnnl_format_tag_last; tag++) {
    const char *known = dnnl_fmt_tag2str((dnnl_format_tag_t)tag);
    if (strcmp(known, tag_name) == 0)
      return dnnl_memory_desc_init_by_tag(out, rank, dims, type, (dnnl_format_tag_t)tag) == dnnl_success;
  }
  return false;
}

const char *library_weights_name(const dnnl_memory_desc_t *desc, const NncConv *c, char *buf, size_t size) {
  dnnl_dims_t dims;
  int rank = weight_dims(c, dims);
  int64_t split[NNC_MAX_RANK];
  int perm[NNC_MAX_RANK], split_rank;
  dnnl_memory_desc_t candidate;
  if (library_weights_desc("oihw", c, &candidate) && dnnl_memory_desc_equal(&candidate, desc)) return "oihw";
  for (int tag = dnnl_format_tag_any + 1; tag < dnnl_format_tag_last; tag++) {
    if (!translate(dnnl_fmt_tag2str((dnnl_format_tag_t)tag), number_letters, axis_letters(c), buf, size)) continue;
    if (dnnl_memory_desc_init_by_tag(&candidate, rank, dims, desc->data_type, (dnnl_format_tag_t)tag) != dnnl_success)
      continue;
    if (!dnnl_memory_desc_equal(&candidate, desc)) continue;
    if (nnc_weights_layout_split(buf, c, &split_rank, split, perm)) return buf;
  }
  return "oihw";
}

bool nnc_weights_layout_split(const char *layout, const NncConv *c, int *rank, int64_t split[NNC_MAX_RANK],
                              int perm[NNC_MAX_RANK]) {
  dnnl_dims_t dims;
  if (!layout || !*layout || strcmp(layout, "oihw") == 0) {
    NncConv all = *c;   // one group, whose channels are all
    all.groups = 1;
    *rank = weight_dims(&all, dims);
    dims[1] /= c->groups;
    for (int i = 0; i < *rank; i++) split[i] = dims[i], perm[i] = i;
    return true;
  }
  dnnl_memory_desc_t known;
  if (!library_weights_desc(layout, c, &known)) return false;
  const char *letters = axis_letters(c);
  int axes = weight_dims(c, dims);
  int64_t block[6] = {1, 1, 1, 1, 1, 1};
  int order[NNC_MAX_RANK], n = 0;   // per result axis the weight axis; inner blocks carry 16 more
  for (const char *p = layout; *p; p++, n++) {
    int64_t size = 1;
    bool inner = isdigit((unsigned char)*p);
    if (inner) size = strtoll(p, (char **)&p, 10);
    int axis = (int)(strchr(letters, tolower((unsigned char)*p)) - letters);
    if (n == NNC_MAX_RANK || (inner && block[axis] != 1)) return false;   // an axis split twice has no such form
    if (inner) block[axis] = size;
    order[n] = axis + (inner ? 16 : 0);
  }
  int first[6], m = 0;   // where the parts of an axis lie in split
  for (int a = 0; a < axes; a++) {
    if (dims[a] % block[a]) return false;
    first[a] = m;
    split[m++] = dims[a] / block[a];
    if (block[a] > 1) split[m++] = block[a];
  }
  if (m != n) return false;
  for (int i = 0; i < n; i++) perm[i] = first[order[i] % 16] + order[i] / 16;
  *rank = n;
  return true;
}
