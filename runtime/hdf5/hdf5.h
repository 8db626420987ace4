// The reader `hdf5`: a dataset for each input, its records along the first axis. The HDF5 library says where its values
// are, in a process of its own, which a damaged file may crash (describe.c); values are read and unpacked here
// (dataset.c, unpack.c). This folder is an archive of its own: only programs that read such files are linked with it.
#ifndef NNC_RUNTIME_HDF5_HDF5_H
#define NNC_RUNTIME_HDF5_HDF5_H

#include "runtime/runtime.h"

enum { HDF5_MAX_FILTERS = 8 };

typedef enum Hdf5Kind { HDF5_DEFLATE, HDF5_SHUFFLE, HDF5_FLETCHER32 } Hdf5Kind;

typedef struct Hdf5Filter {
  Hdf5Kind kind;
  int64_t element;   // shuffle: bytes of one
} Hdf5Filter;

typedef struct Hdf5Chunk {
  int64_t at;                 // of the file
  uint32_t bytes, left_out;   // as it is stored; bits of the filters that it went without
} Hdf5Chunk;

typedef struct Hdf5Layout {
  NncDtype dtype;
  bool swapped;   // bytes of an element come in the other order
  int rank;       // rows included
  int64_t dim[NNC_MAX_RANK + 1];
  int64_t at;   // where all values lie, one after the other; -1: in chunks
  int64_t side[NNC_MAX_RANK + 1];
  int n_filters;   // in the order in which they packed
  Hdf5Filter filters[HDF5_MAX_FILTERS];
  int64_t n_chunks;    // in the order of their places in the dataset
  Hdf5Chunk *chunks;   // Owned
} Hdf5Layout;

// What the file says of the dataset, compared with the file's size. name: of both, for messages. False after reporting.
bool hdf5_describe(const char *path, const char *field, const char *name, Hdf5Layout *out);
int64_t hdf5_chunk_bytes(const Hdf5Layout *l);   // of one that is unpacked

// Unpacks `from`, the chunk as it is stored, which is overwritten, into *result, which is one of the buffers. Each
// buffer has hdf5_buffer_bytes; memory: HDF5_ZLIB_BYTES. NULL, or what is wrong with it.
enum { HDF5_ZLIB_BYTES = 64 << 10 };
int64_t hdf5_buffer_bytes(const Hdf5Layout *l);
const char *hdf5_unpack(const Hdf5Layout *l, const Hdf5Chunk *c, char *from, char *other, char *memory, char **result);

#endif
