// Depthwise convolutions (as many groups as channels, in and out) with the channels last, as kernel templates: forward,
// input gradient, weight gradient, in all types; sums in f32 or f64.
#ifndef NNC_CODEGEN_CUDA_TEMPLATE_DEPTHWISE_H
#define NNC_CODEGEN_CUDA_TEMPLATE_DEPTHWISE_H

#include "codegen/cuda/template/template.h"

bool depthwise_supported(const NncConv *c);
// One or two kernels, run in order. Parameters: the buffers of NncConv in its order, the workspace if there is one,
// then the launch's numbers.
int depthwise_launches(const NncConv *c);
int64_t depthwise_workspace(const NncConv *c);         // bytes
char *depthwise_symbol(const NncConv *c, int which);   // Owned: free. Equal for shapes that one kernel serves
void depthwise_launch(const NncConv *c, int which, TemplateLaunch *launch);
void depthwise_build(LLVMModuleRef module, const NncConv *c, int which, const char *name);

#endif
