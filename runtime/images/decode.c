// JPEG by libjpeg, PNG by libpng. A file is read as it is decoded, and what a decoder may take of memory is bounded:
// what a file claims to be does not decide it. libjpeg makes images of half, a quarter or an eighth of the size for
// less than a whole one; that is used where it leaves twice the pixels that are wanted.
#include <errno.h>
#include <fcntl.h>
#include <png.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
// needs stdio.h
#include <jerror.h>
#include <jpeglib.h>

#include "runtime/images/images.h"

enum { MAX_ROW = 4 * (IMAGE_MAX_SIDE + 1) };   // bytes

int64_t decode_room_bytes(const ImageShape *s) { return MAX_ROW + resize_room_bytes(s); }

// As Pillow makes grey of colours.
static unsigned char grey(const unsigned char *p) {
  return (unsigned char)((19595u * p[0] + 38470u * p[1] + 7471u * p[2] + 0x8000u) >> 16);
}

// ---------------------------------------------------------------------------------------------------------------------
// JPEG

// Decoders take an error of the system for the end of the file.
static void report_broken(FILE *f, const char *path, const char *format, const char *message) {
  if (ferror(f)) report_error("cannot read %s: %s", path, strerror(errno));
  else report_error("%s: broken %s: %s", path, format, message);
}

typedef struct JpegErrors {
  struct jpeg_error_mgr manager;
  jmp_buf out;
  char message[JMSG_LENGTH_MAX];
} JpegErrors;

static void jpeg_fails(j_common_ptr jpeg) {
  JpegErrors *e = (JpegErrors *)jpeg->err;
  e->manager.format_message(jpeg, e->message);
  longjmp(e->out, 1);
}

// What is missing from an image is an error; superfluous bytes are none.
static void jpeg_warns(j_common_ptr jpeg, int level) {
  int code = jpeg->err->msg_code;
  if (level < 0 && (code == JWRN_JPEG_EOF || code == JWRN_HIT_MARKER || code == JWRN_HUFF_BAD_CODE ||
                    code == JWRN_MUST_RESYNC || code == JWRN_BOGUS_PROGRESSION))
    jpeg_fails(jpeg);
}

// Printers' inks, which Adobe stores the other way round, as red, green, blue, in place.
static void inks_to_colours(unsigned char *row, int64_t width, bool inverted) {
  for (int64_t x = 0; x < width; x++) {
    unsigned char *from = row + 4 * x, *to = row + 3 * x;
    unsigned k = inverted ? from[3] : 255u - from[3];
    for (int c = 0; c < 3; c++) to[c] = (unsigned char)((inverted ? from[c] : 255u - from[c]) * k / 255);
  }
}

static void to_grey(unsigned char *row, int64_t width) {
  for (int64_t x = 0; x < width; x++) row[x] = grey(row + 3 * x);
}

static void read_jpeg(struct jpeg_decompress_struct *jpeg, const ImageShape *s, unsigned char *row, void *room,
                      unsigned char *planes) {
  Resize r;
  int64_t to_height, to_width;
  resize_whole(s, jpeg->image_height, jpeg->image_width, &to_height, &to_width);
  bool inks = jpeg->jpeg_color_space == JCS_CMYK || jpeg->jpeg_color_space == JCS_YCCK;
  jpeg->out_color_space = inks ? JCS_CMYK : s->channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  for (jpeg->scale_denom = 8; jpeg->scale_denom > 1; jpeg->scale_denom /= 2)
    if (jpeg->image_width / jpeg->scale_denom >= 2 * to_width &&
        jpeg->image_height / jpeg->scale_denom >= 2 * to_height)
      break;
  jpeg_start_decompress(jpeg);
  resize_begin(&r, s, jpeg->output_height, jpeg->output_width, to_height, to_width, room);
  while (jpeg->output_scanline < jpeg->output_height) {
    jpeg_read_scanlines(jpeg, &row, 1);
    if (inks) inks_to_colours(row, r.from_width, jpeg->saw_Adobe_marker);
    if (inks && s->channels == 1) to_grey(row, r.from_width);
    resize_row(&r, row);
  }
  jpeg_finish_decompress(jpeg);
  resize_end(&r, planes);
}

static bool decode_jpeg(FILE *f, const char *path, const ImageShape *s, void *room, unsigned char *planes) {
  struct jpeg_decompress_struct jpeg;
  JpegErrors errors;
  jpeg.err = jpeg_std_error(&errors.manager);
  errors.manager.error_exit = jpeg_fails;
  errors.manager.emit_message = jpeg_warns;
  if (setjmp(errors.out)) {
    report_broken(f, path, "JPEG", errors.message);
    jpeg_destroy_decompress(&jpeg);
    return false;
  }
  jpeg_create_decompress(&jpeg);
  jpeg.mem->max_memory_to_use = IMAGE_DECODER_BYTES;
  jpeg_stdio_src(&jpeg, f);
  jpeg_read_header(&jpeg, TRUE);
  read_jpeg(&jpeg, s, room, (char *)room + MAX_ROW, planes);
  jpeg_destroy_decompress(&jpeg);
  return true;
}

// ---------------------------------------------------------------------------------------------------------------------
// PNG

typedef struct PngErrors {
  jmp_buf out;
  char message[160];
} PngErrors;

static void png_fails(png_structp png, png_const_charp message) {
  PngErrors *e = png_get_error_ptr(png);
  snprintf(e->message, sizeof e->message, "%s", message);
  longjmp(e->out, 1);
}

static void png_warns(png_structp png, png_const_charp message) { (void)png, (void)message; }

static void *start_png(png_structp png, png_infop info, FILE *f, const ImageShape *s, int *channels, int *passes) {
  png_set_user_limits(png, IMAGE_MAX_SIDE, IMAGE_MAX_SIDE);
  png_set_chunk_malloc_max(png, IMAGE_DECODER_BYTES);
  png_init_io(png, f);
  png_read_info(png, info);
  png_set_scale_16(png);
  png_set_expand(png);
  png_set_strip_alpha(png);
  if (s->channels == 3) png_set_gray_to_rgb(png);
  *passes = png_set_interlace_handling(png);
  png_read_update_info(png, info);
  *channels = png_get_channels(png, info);
  if (*passes == 1) return NULL;
  int64_t bytes = (int64_t)png_get_rowbytes(png, info) * png_get_image_height(png, info);
  if (bytes > IMAGE_DECODER_BYTES) png_error(png, "an interlaced image of more than 64 MiB");
  void *all = malloc((size_t)bytes);
  if (!all) png_error(png, "out of memory");
  return all;
}

static bool decode_png(FILE *f, const char *path, const ImageShape *s, void *room, unsigned char *planes) {
  PngErrors errors;
  unsigned char *volatile all = NULL;   // of an interlaced image, which comes several times
  png_structp volatile png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &errors, png_fails, png_warns);
  png_infop volatile info = png ? png_create_info_struct(png) : NULL;
  if (!info || setjmp(errors.out)) {
    report_broken(f, path, "PNG", info ? errors.message : "out of memory");
    png_destroy_read_struct((png_structp *)&png, (png_infop *)&info, NULL);
    free(all);
    return false;
  }
  int channels, passes;
  int64_t to_height, to_width;
  Resize r;
  all = start_png(png, info, f, s, &channels, &passes);
  int64_t height = png_get_image_height(png, info), width = png_get_image_width(png, info),
          bytes = (int64_t)png_get_rowbytes(png, info);
  resize_whole(s, height, width, &to_height, &to_width);
  resize_begin(&r, s, height, width, to_height, to_width, (char *)room + MAX_ROW);
  for (int pass = 0; pass + 1 < passes; pass++)
    for (int64_t y = 0; y < height; y++) png_read_row(png, all + y * bytes, NULL);
  for (int64_t y = 0; y < height; y++) {
    unsigned char *row = all ? all + y * bytes : room;
    png_read_row(png, row, NULL);
    if (channels == 3 && s->channels == 1) to_grey(row, width);
    resize_row(&r, row);
  }
  png_read_end(png, NULL);
  resize_end(&r, planes);
  png_destroy_read_struct((png_structp *)&png, (png_infop *)&info, NULL);
  free(all);
  return true;
}

// ---------------------------------------------------------------------------------------------------------------------

// NULL after reporting; errno says why.
static FILE *open_image(const char *path) {
  struct stat st;
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);   // a pipe without a writer does not block
  bool regular = fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
  FILE *f = regular ? fdopen(fd, "rb") : NULL;
  if (f) return f;
  int error = fd < 0 || regular ? errno : EINVAL;
  if (fd >= 0) close(fd);
  if (fd < 0 || regular) report_error("cannot open %s: %s", path, strerror(error));
  else report_error("%s is not a regular file", path);
  errno = error;
  return NULL;
}

bool decode_image(const char *path, const ImageShape *s, void *room, unsigned char *planes) {
  unsigned char magic[4] = {0};
  FILE *f = open_image(path);
  if (!f) return false;
  size_t n = fread(magic, 1, 4, f);
  if (ferror(f)) {
    int error = errno;
    report_error("cannot read %s: %s", path, strerror(error));
    fclose(f);
    errno = error;
    return false;
  }
  rewind(f);
  bool jpeg = n == 4 && magic[0] == 0xff && magic[1] == 0xd8, png = n == 4 && memcmp(magic, "\x89PNG", 4) == 0;
  bool ok = jpeg ? decode_jpeg(f, path, s, room, planes) : png ? decode_png(f, path, s, room, planes) : false;
  if (n < 4) report_error("%s: broken image: a file of %d bytes", path, (int)n);
  else if (!jpeg && !png)
    report_error("%s: neither JPEG nor PNG: it begins with %02x %02x %02x %02x", path, magic[0], magic[1], magic[2],
                 magic[3]);
  int error = ferror(f) ? EIO : 0;
  fclose(f);
  errno = error;
  return ok;
}
