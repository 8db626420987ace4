// What the convolution templates share: tiles of 128 by 128 results, or half of that where there are no more than 64 channels; three stages of asynchronous copies;
// eight warps of 64 by 32 results each, or 32 by 32.
#ifndef NNC_CODEGEN_CUDA_TEMPLATE_CONV_H
#define NNC_CODEGEN_CUDA_TEMPLATE_CONV_H

#include "codegen/cuda/template.h"

enum { CONV_ROWS = 128, CONV_COLUMNS = 128, CONV_THREADS = 256, CONV_STAGES = 3, CONV_M_TILES = 4, CONV_N_TILES = 4 };

// How pixels of an image are visited: for position (y, x) of the other image and tap (ky, kx) the pixel (y multiply + offset + ky tap) / divide, if that is whole and inside.
typedef struct Gather {
  int64_t positions_h, positions_w, height, width, channels;   // channels: of all groups
  int64_t multiply[2], offset[2], tap[2], divide[2];
} Gather;
Gather conv_gather(const ConvShape *c);

typedef struct ConvAccumulators { int m_tiles; Var c[CONV_M_TILES][CONV_N_TILES][4]; } ConvAccumulators;

// One thread's place among the copies of a tile with rows of 128 bytes: chunk tid % 8 of rows tid / 8 + 32 i.
typedef struct PixelRow { Val inside, y, x, base; } PixelRow;   // i1; i32 before the tap; i64 elements: the image and the channel offset of the chunk
PixelRow conv_pixel_row(Build *b, const Gather *g, Val position, int64_t n_positions, Val channel);
// Address of the pixel at a tap, channel first_channel on; *valid: it is inside of the image.
Val conv_pixel(Build *b, const Gather *g, const PixelRow *row, Val image, int element_bytes, Val ky, Val kx, Val first_channel, Val *valid);
void conv_copy_chunk(Build *b, Val to, Val from, Val valid);   // 16 bytes, or zeros
void conv_accumulators(Build *b, ConvAccumulators *sums, int m_tiles);
Val conv_next_stage(Build *b, Val stage);

// template_conv_weights.c: the gradient of the weights is cut into parts, which the second kernel adds in order.
int conv_parts(const ConvShape *c);
void conv_weight_gradient(LLVMModuleRef module, const ConvShape *c, const char *name, TemplateLaunch *launch);
void conv_sum(LLVMModuleRef module, const ConvShape *c, const char *name, TemplateLaunch *launch);

#endif
