// Decoding and resizing images, for the reader `images`. This folder is an archive of its own, with libjpeg and libpng
// behind it: only programs whose data are images are linked with it.
#ifndef NNC_RUNTIME_IMAGES_IMAGES_H
#define NNC_RUNTIME_IMAGES_IMAGES_H

#include "runtime/runtime.h"

// What becomes of an image: a window of height x width pixels in the middle of the whole, scaled so that its shorter
// side is `shorter`, or, 0, that it just covers the window; planes of bytes, one of grey or three of red, green, blue.
typedef struct ImageShape {
  int64_t channels, height, width, shorter;
} ImageShape;

enum { IMAGE_MAX_SIDE = 65535, IMAGE_DECODER_BYTES = 64 << 20 };   // the memory that a decoder may take besides

// resize.c: rows come in from the top; with the triangle filter of Pillow's BILINEAR, whose width grows with the scale.
typedef struct Resize {
  ImageShape shape;
  int64_t from_height, from_width;   // of what comes in
  int64_t to_height, to_width;       // of the whole
  int64_t top, left;                 // of the window in it
  int64_t row;                       // that comes next
  float *sums, *line, *weights;      // Borrowed, from the room: of the window, of a row of it, of the filter
  int32_t *first;   // Borrowed: of each column of the window the first pixel, and where its weights are
} Resize;
int64_t resize_room_bytes(const ImageShape *s);
// The size of the whole of an image of height x width.
void resize_whole(const ImageShape *s, int64_t height, int64_t width, int64_t *to_height, int64_t *to_width);
// height, width: of the rows that will come; to_*: as resize_whole said for the image they were made from.
void resize_begin(Resize *r, const ImageShape *s, int64_t height, int64_t width, int64_t to_height, int64_t to_width,
                  void *room);
void resize_row(Resize *r, const unsigned char *pixels);   // width pixels of shape.channels bytes
void resize_end(const Resize *r, unsigned char *planes);

// decode.c: the image of a file into planes of bytes; room: decode_room_bytes. Reports, with the file's name; errno is
// 0 where the image is broken, else why the system could not read it.
int64_t decode_room_bytes(const ImageShape *s);
bool decode_image(const char *path, const ImageShape *s, void *room, unsigned char *planes);

#endif
