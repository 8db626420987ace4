// What the versions 2 and 3 of oneDNN spell differently: descriptions of memory, which are values in the one and
// handles in the other, and the making of descriptors. Everything else is called as the library has it.
#ifndef NNC_RUNTIME_ONEDNN_H
#define NNC_RUNTIME_ONEDNN_H

#include <oneapi/dnnl/dnnl.h>
#include <stdbool.h>

// How a tensor lies in memory. NULL: not described.
#if DNNL_VERSION_MAJOR >= 3
typedef dnnl_memory_desc_t OnednnLayout;               // Owned
typedef const_dnnl_memory_desc_t OnednnLayoutOfDesc;   // Borrowed
#else
typedef dnnl_memory_desc_t *OnednnLayout;
typedef const dnnl_memory_desc_t *OnednnLayoutOfDesc;
#endif

// Each gives up what *layout was before. dims and strides: n of them, the strides in elements. False: invalid, and not
// described.
bool onednn_layout_by_tag(OnednnLayout *layout, int n, const dnnl_dims_t dims, dnnl_data_type_t type,
                          dnnl_format_tag_t tag);
bool onednn_layout_by_strides(OnednnLayout *layout, int n, const dnnl_dims_t dims, dnnl_data_type_t type,
                              const dnnl_dims_t strides);
void onednn_layout_copy(OnednnLayout *layout, OnednnLayoutOfDesc from);
void onednn_layout_drop(OnednnLayout *layout);

// x, w, y: images, weights and results, or their gradients. Before and after: the padding.
typedef struct OnednnConv {
  OnednnLayout x, w, y;
  dnnl_dims_t stride, dilation, before, after;   // dilation: 0 where pixels are neighbours
} OnednnConv;

// The best implementation that there is for these layouts, owned by the caller; NULL: none. The backward passes want
// the descriptor of the forward pass as a hint.
dnnl_primitive_desc_t onednn_conv_forward(dnnl_engine_t engine, dnnl_primitive_attr_t attr, const OnednnConv *c);
dnnl_primitive_desc_t onednn_conv_input_grad(dnnl_engine_t engine, dnnl_primitive_attr_t attr, const OnednnConv *c,
                                             dnnl_primitive_desc_t forward);
dnnl_primitive_desc_t onednn_conv_weight_grad(dnnl_engine_t engine, dnnl_primitive_attr_t attr, const OnednnConv *c,
                                              dnnl_primitive_desc_t forward);
dnnl_primitive_desc_t onednn_matmul(dnnl_engine_t engine, dnnl_primitive_attr_t attr, OnednnLayout a, OnednnLayout b,
                                    OnednnLayout c);

#endif
