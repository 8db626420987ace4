// What the functions of a kernel are built from.
#include "codegen/cuda/template/template.h"

static CudaTemplate *template_of(const EmittedKernel *k, int kind) {
  CudaTemplate *t = k->template;
  return t && (int)t->kind == kind ? t : NULL;
}

ConvShape *template_conv_of(const EmittedKernel *k) {
  CudaTemplate *t = template_of(k, TEMPLATE_CONV);
  return t ? &t->conv : NULL;
}

const NncConv *template_depthwise_of(const EmittedKernel *k) {
  CudaTemplate *t = template_of(k, TEMPLATE_DEPTHWISE);
  return t ? &t->depthwise : NULL;
}

const Attention *template_attention_of(const EmittedKernel *k) {
  CudaTemplate *t = template_of(k, TEMPLATE_ATTENTION);
  return t ? &t->attention : NULL;
}

const CollectiveTemplate *template_collective_of(const EmittedKernel *k) {
  CudaTemplate *t = template_of(k, TEMPLATE_COLLECTIVE);
  return t ? &t->collective : NULL;
}

const NncRows *template_rows_of(const EmittedKernel *k) {
  CudaTemplate *t = template_of(k, TEMPLATE_ROWS);
  return t ? &t->rows : NULL;
}
