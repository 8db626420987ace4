// Any bytes as an image, JPEG or PNG by how they begin, in colours and in grey.
#include "runtime/images/images.h"
#include "test/fuzz/reader.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  ImageShape shape = {size % 2 ? 1 : 3, 12, 10, size % 3 ? 14 : 0};
  void *room = malloc((size_t)decode_room_bytes(&shape));
  unsigned char planes[3 * 12 * 10];
  if (!room) abort();
  decode_image(input_file(data, size), &shape, room, planes);
  free(room);
  return 0;
}
