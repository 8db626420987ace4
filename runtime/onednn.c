// The spellings of oneDNN 3, then those of 2; onednn.h.
#include "runtime/onednn.h"

#include "runtime/runtime.h"

#include <stdlib.h>

#if DNNL_VERSION_MAJOR >= 3

bool onednn_layout_by_tag(OnednnLayout *layout, int n, const dnnl_dims_t dims, dnnl_data_type_t type,
                          dnnl_format_tag_t tag) {
  onednn_layout_drop(layout);
  return dnnl_memory_desc_create_with_tag(layout, n, dims, type, tag) == dnnl_success;
}

bool onednn_layout_by_strides(OnednnLayout *layout, int n, const dnnl_dims_t dims, dnnl_data_type_t type,
                              const dnnl_dims_t strides) {
  onednn_layout_drop(layout);
  return dnnl_memory_desc_create_with_strides(layout, n, dims, type, strides) == dnnl_success;
}

void onednn_layout_copy(OnednnLayout *layout, OnednnLayoutOfDesc from) {
  onednn_layout_drop(layout);
  if (dnnl_memory_desc_clone(layout, from) != dnnl_success) report_internal("oneDNN cannot copy a layout");
}

void onednn_layout_drop(OnednnLayout *layout) {
  if (*layout) dnnl_memory_desc_destroy(*layout);
  *layout = NULL;
}

dnnl_primitive_desc_t onednn_conv_forward(dnnl_engine_t engine, dnnl_primitive_attr_t attr, const OnednnConv *c) {
  dnnl_primitive_desc_t desc = NULL;
  dnnl_status_t status = dnnl_convolution_forward_primitive_desc_create(&desc, engine, dnnl_forward_training,
                                                                        dnnl_convolution_direct, c->x, c->w, NULL, c->y,
                                                                        c->stride, c->dilation, c->before, c->after,
                                                                        attr);
  return status == dnnl_success ? desc : NULL;
}

dnnl_primitive_desc_t onednn_conv_input_grad(dnnl_engine_t engine, dnnl_primitive_attr_t attr, const OnednnConv *c,
                                             dnnl_primitive_desc_t forward) {
  dnnl_primitive_desc_t desc = NULL;
  dnnl_status_t status = dnnl_convolution_backward_data_primitive_desc_create(&desc, engine, dnnl_convolution_direct,
                                                                              c->x, c->w, c->y, c->stride, c->dilation,
                                                                              c->before, c->after, forward, attr);
  return status == dnnl_success ? desc : NULL;
}

dnnl_primitive_desc_t onednn_conv_weight_grad(dnnl_engine_t engine, dnnl_primitive_attr_t attr, const OnednnConv *c,
                                              dnnl_primitive_desc_t forward) {
  dnnl_primitive_desc_t desc = NULL;
  dnnl_status_t status = dnnl_convolution_backward_weights_primitive_desc_create(&desc, engine, dnnl_convolution_direct,
                                                                                 c->x, c->w, NULL, c->y, c->stride,
                                                                                 c->dilation, c->before, c->after,
                                                                                 forward, attr);
  return status == dnnl_success ? desc : NULL;
}

dnnl_primitive_desc_t onednn_matmul(dnnl_engine_t engine, dnnl_primitive_attr_t attr, OnednnLayout a, OnednnLayout b,
                                    OnednnLayout c) {
  dnnl_primitive_desc_t desc = NULL;
  dnnl_status_t status = dnnl_matmul_primitive_desc_create(&desc, engine, a, b, NULL, c, attr);
  return status == dnnl_success ? desc : NULL;
}

#else

static OnednnLayout room(OnednnLayout *layout) {
  if (!*layout) *layout = xmalloc(sizeof **layout);
  return *layout;
}

bool onednn_layout_by_tag(OnednnLayout *layout, int n, const dnnl_dims_t dims, dnnl_data_type_t type,
                          dnnl_format_tag_t tag) {
  bool ok = dnnl_memory_desc_init_by_tag(room(layout), n, dims, type, tag) == dnnl_success;
  if (!ok) onednn_layout_drop(layout);
  return ok;
}

bool onednn_layout_by_strides(OnednnLayout *layout, int n, const dnnl_dims_t dims, dnnl_data_type_t type,
                              const dnnl_dims_t strides) {
  bool ok = dnnl_memory_desc_init_by_strides(room(layout), n, dims, type, strides) == dnnl_success;
  if (!ok) onednn_layout_drop(layout);
  return ok;
}

void onednn_layout_copy(OnednnLayout *layout, OnednnLayoutOfDesc from) { *room(layout) = *from; }

void onednn_layout_drop(OnednnLayout *layout) {
  free(*layout);
  *layout = NULL;
}

static dnnl_primitive_desc_t describe(dnnl_status_t status, const void *op, dnnl_engine_t engine,
                                      dnnl_primitive_attr_t attr, dnnl_primitive_desc_t hint) {
  dnnl_primitive_desc_t desc = NULL;
  if (status == dnnl_success) status = dnnl_primitive_desc_create(&desc, op, attr, engine, hint);
  return status == dnnl_success ? desc : NULL;
}

dnnl_primitive_desc_t onednn_conv_forward(dnnl_engine_t engine, dnnl_primitive_attr_t attr, const OnednnConv *c) {
  dnnl_convolution_desc_t op;
  dnnl_status_t status = dnnl_dilated_convolution_forward_desc_init(&op, dnnl_forward_training, dnnl_convolution_direct,
                                                                    c->x, c->w, NULL, c->y, c->stride, c->dilation,
                                                                    c->before, c->after);
  return describe(status, &op, engine, attr, NULL);
}

dnnl_primitive_desc_t onednn_conv_input_grad(dnnl_engine_t engine, dnnl_primitive_attr_t attr, const OnednnConv *c,
                                             dnnl_primitive_desc_t forward) {
  dnnl_convolution_desc_t op;
  dnnl_status_t status = dnnl_dilated_convolution_backward_data_desc_init(&op, dnnl_convolution_direct, c->x, c->w,
                                                                          c->y, c->stride, c->dilation, c->before,
                                                                          c->after);
  return describe(status, &op, engine, attr, forward);
}

dnnl_primitive_desc_t onednn_conv_weight_grad(dnnl_engine_t engine, dnnl_primitive_attr_t attr, const OnednnConv *c,
                                              dnnl_primitive_desc_t forward) {
  dnnl_convolution_desc_t op;
  dnnl_status_t status = dnnl_dilated_convolution_backward_weights_desc_init(&op, dnnl_convolution_direct, c->x, c->w,
                                                                             NULL, c->y, c->stride, c->dilation,
                                                                             c->before, c->after);
  return describe(status, &op, engine, attr, forward);
}

dnnl_primitive_desc_t onednn_matmul(dnnl_engine_t engine, dnnl_primitive_attr_t attr, OnednnLayout a, OnednnLayout b,
                                    OnednnLayout c) {
  dnnl_matmul_desc_t op;
  return describe(dnnl_matmul_desc_init(&op, a, b, NULL, c), &op, engine, attr, NULL);
}

#endif
