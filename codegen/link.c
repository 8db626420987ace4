// The system's C compiler: compiles the tables while the kernels are lowered, then links both with the runtime. Its
// output is shown only when it fails.
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "codegen/library.h"
#include "codegen/link.h"
#include "codegen/scratch.h"
#include "support/alloc.h"
#include "support/bytes.h"
#include "support/text.h"

enum { READERS = 2 };   // with libraries of their own

struct Link {
  const CodegenOptions *options;   // Borrowed
  char *folder, *object, *log;     // Owned
  char *archive, *include;         // Owned; the runtime
  char *readers[READERS];          // Owned; archives
  pid_t compiler;                  // running, or 0
};

#define C_COMPILER "cc"

static bool exists(const char *path) { return access(path, R_OK) == 0; }

// Takes archive and include; keeps them if the archive is there.
static bool try_runtime(Link *l, char *archive, char *include) {
  if (exists(archive)) {
    l->archive = archive;
    l->include = include;
    return true;
  }
  free(archive);
  free(include);
  return false;
}

// In the build tree, the build tree's runtime; installed, the one beside the compiler, so that a moved installation
// works.
static bool find_runtime(Link *l) {
  char self[PATH_MAX] = "";
  ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
  if (n > 0) self[n] = 0;
  char *slash = strrchr(self, '/');
  if (slash) *slash = 0;
  bool in_build_tree = !strcmp(self, NNC_BUILD_RUNTIME_DIR) || !strcmp(self, NNC_BUILD_RUNTIME_DIR "/unit-tests");
  if (in_build_tree &&
      try_runtime(l, copy_string(NNC_BUILD_RUNTIME_DIR "/libnncrt.a"), copy_string(NNC_BUILD_SOURCE_DIR)))
    return true;
  static const char *const folders[] = {"lib", "lib64", "lib/x86_64-linux-gnu"};
  for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
    if (try_runtime(l, text_format("%s/../%s/nnc/libnncrt.a", self, folders[i]),
                    text_format("%s/../include/nnc", self)))
      return true;
  return try_runtime(l, copy_string(NNC_INSTALL_LIBDIR "/libnncrt.a"), copy_string(NNC_INSTALL_INCLUDEDIR));
}

// Starts a command with its output appended to the log. 0 when it cannot be started (reported).
static pid_t start(const Link *l, const char *const *argv) {
  if (l->options->verbose) {
    for (int i = 0; argv[i]; i++) fprintf(stderr, "%s%s", i ? " " : "", argv[i]);
    fprintf(stderr, "\n");
  }
  pid_t pid = 0;
  int error = scratch_start(argv, l->log, &pid);
  if (!error) return pid;
  if (error == ENOENT)
    fprintf(stderr, "nnc: error: no C compiler: '%s' was not found; it links the executable (package gcc)\n", argv[0]);
  else fprintf(stderr, "nnc: error: cannot start '%s': %s\n", argv[0], strerror(error));
  return 0;
}

static void show_log(const Link *l) {
  FILE *f = fopen(l->log, "r");
  char buf[4096];
  size_t n;
  while (f && (n = fread(buf, 1, sizeof buf, f)) > 0) fwrite(buf, 1, n, stderr);
  if (f) fclose(f);
}

// The C compiler and the linker end without a word where the disk is full, since their log is on it, too. Bytes needed:
// all that is linked, of which an executable has less.
static void say_if_full(const Link *l) {
  struct statvfs system;
  struct stat archive;
  char have[32], want[32];
  if (statvfs(l->folder, &system) != 0 || stat(l->archive, &archive) != 0) return;
  int64_t free_bytes = (int64_t)system.f_bavail * (int64_t)system.f_frsize, needed = archive.st_size;
  if (free_bytes >= needed) return;
  fprintf(stderr, "nnc: error: the disk is full: %s are free beside '%s', where an executable may need %s\n",
          print_bytes(free_bytes, have, sizeof have), l->options->output, print_bytes(needed, want, sizeof want));
}

static bool wait_for(const Link *l, pid_t pid, const char *what) {
  if (scratch_wait(pid)) return true;
  fprintf(stderr, "nnc: error: %s failed; '" C_COMPILER "' says:\n", what);
  show_log(l);
  say_if_full(l);
  return false;
}

// An archive of its own beside the runtime, and the libraries behind it.
typedef struct Archive {
  const char *name;
  const char *libraries[8];
} Archive;
static const Archive mpis[] = {NNC_MPIS{NULL, {NULL}}};   // by CMake

const char *codegen_mpi(int i) { return mpis[i].name; }

static const Archive *find_mpi(const CodegenOptions *options) {
  if (!options->ranks || !options->mpi) return NULL;
  for (const Archive *m = mpis; m->name; m++)
    if (strcmp(m->name, options->mpi) == 0) return m;
  return NULL;
}

// Readers of data with libraries of their own; those that this nnc was built with have an archive beside the runtime.
static const struct {
  const char *name, *packages;
} readers[READERS] = {{"images", "libjpeg62-turbo-dev and libpng-dev"}, {"hdf5", "libhdf5-dev"}};
static const Archive reader_parts[] = {NNC_READERS{NULL, {NULL}}};   // by CMake

const char *codegen_reader(int i) { return i < READERS ? readers[i].name : NULL; }

static const Archive *find_reader(int reader) {
  for (const Archive *p = reader_parts; p->name; p++)
    if (strcmp(p->name, readers[reader].name) == 0) return p;
  return NULL;
}

static bool has_readers(const CodegenOptions *options) {
  for (int i = 0; i < READERS; i++) {
    if (!(options->readers >> i & 1) || find_reader(i)) continue;
    fprintf(stderr, "nnc: error: this nnc was built without the reader '%s': it wants %s when it is built\n",
            readers[i].name, readers[i].packages);
    return false;
  }
  return true;
}

Link *link_begin(const char *tables_path, const char *folder, const CodegenOptions *options) {
  Link *l = allocate_array(1, sizeof *l);
  *l = (Link){.options = options,
              .folder = copy_string(folder),
              .object = text_format("%s/program.o", folder),
              .log = text_format("%s/log", folder)};
  if (!has_readers(options)) {
    // reported
  } else if (!find_runtime(l)) {
    fprintf(stderr, "nnc: error: the runtime library libnncrt.a was not found, neither beside the compiler nor "
                    "in " NNC_INSTALL_LIBDIR "\n");
  } else {
    // Not optimised: but for the learning rate there is no code.
    const char *argv[] = {C_COMPILER,
                          "-std=gnu17",
                          "-O0",
                          "-pipe",
                          "-c",
                          "-I",
                          l->include,
                          "-o",
                          l->object,
                          tables_path,
                          options->library ? "-fPIC" : NULL,
                          NULL};
    l->compiler = start(l, argv);
  }
  if (l->compiler) return l;
  link_end(l, 0, NULL, false);
  return NULL;
}

// The objects and the archives that every program is made of; room for 56 more. What they are kept in is l's.
static int add_objects(Link *l, int n_objects, const char *const *objects, const char *engine, const char *argv[]) {
  int n = 0;
  const char *slash = strrchr(l->archive, '/');
  argv[n++] = l->object;
  for (int i = 0; i < n_objects && n < 48; i++) argv[n++] = objects[i];
  for (int i = 0; i < READERS; i++) {
    if (!(l->options->readers >> i & 1)) continue;
    free(l->readers[i]);
    argv[n++] = l->readers[i] = text_format("%.*s/libnncrt_%s.a", (int)(slash - l->archive), l->archive,
                                            readers[i].name);
  }
  if (engine) argv[n++] = engine;
  argv[n++] = l->archive;
  return n;
}

static bool run(const Link *l, const char *const *argv, const char *what) {
  pid_t pid = start(l, argv);
  return pid && wait_for(l, pid, what);
}

// All of a library in one object, of which others see one symbol; its libraries are linked with the program that it
// becomes part of.
static bool link_archive(Link *l, int n_objects, const char *const *objects, const char *path) {
  char *whole = text_format("%s/library.o", l->folder), *symbol = library_symbol(l->folder);
  const char *argv[64] = {C_COMPILER, "-r", "-nostdlib", "-o", whole};
  int n = 5;
  n += add_objects(l, n_objects, objects, NULL, argv + n);
  argv[n] = NULL;
  const char *hide[] = {"objcopy", "--strip-debug", "--keep-global-symbol", symbol, whole, NULL},
             *archive[] = {"ar", "rcs", path, whole, NULL};
  bool ok = symbol && run(l, argv, "linking the library") && run(l, hide, "linking the library") &&
            run(l, archive, "linking the library");
  free(whole);
  free(symbol);
  return ok;
}

// An executable or a shared library.
static bool link_program(Link *l, int n_objects, const char *const *objects, const char *path) {
  bool library = l->options->library;
  const char *argv[80], *slash = strrchr(l->archive, '/'), *name = strrchr(l->options->output, '/');
  char *exports = text_format("-Wl,--version-script=%s/exports", l->folder),
       *soname = text_format("-Wl,-soname,%s", name ? name + 1 : l->options->output);
  // what stands between the runtime and an MPI lies beside the runtime
  const Archive *mpi = find_mpi(l->options);
  char *engine = mpi ? text_format("%.*s/libnncrt_%s.a", (int)(slash - l->archive), l->archive, mpi->name) : NULL;
  int n = 0;
  argv[n++] = C_COMPILER;
#ifdef NNC_GOLD   // where nnc was built
  if (exists(NNC_GOLD)) argv[n++] = "-fuse-ld=gold";
#endif
#ifdef NNC_SANITIZE
  argv[n++] = "-fsanitize=address,undefined";
#else
  argv[n++] = "-Wl,--strip-debug";   // the runtime's: a quarter of the linker's time, half of the file
  if (!library && l->options->flags) argv[n++] = l->options->flags;
#endif
  if (library) argv[n++] = "-shared", argv[n++] = "-Wl,-z,defs", argv[n++] = exports, argv[n++] = soname;
  argv[n++] = "-o";
  argv[n++] = path;
  n += add_objects(l, n_objects, objects, engine, argv + n);
  static const char *const libraries[] = {"-Wl,--as-needed", "-ldnnl", "-lgomp", "-lz", "-lmvec", "-lm",
                                          "-lpthread",       "-ldl",   NULL};
  for (int i = 0; libraries[i]; i++) argv[n++] = libraries[i];
  for (int r = 0; r < READERS; r++)
    for (int i = 0; l->options->readers >> r & 1 && find_reader(r)->libraries[i]; i++)
      argv[n++] = find_reader(r)->libraries[i];
  for (int i = 0; mpi && mpi->libraries[i]; i++) argv[n++] = mpi->libraries[i];
  argv[n] = NULL;
  bool ok = run(l, argv, library ? "linking the library" : "linking the executable");
  free(engine);
  free(exports);
  free(soname);
  return ok;
}

bool link_end(Link *l, int n_objects, const char *const *objects, bool wanted) {
  bool ok = l->compiler != 0;
  if (l->compiler) ok = wait_for(l, l->compiler, "compiling the tables of the program");
  ok = ok && wanted;
  char *path = text_format("%s/executable", l->folder);
  bool archive = l->options->library && library_is_static(l->options);
  if (ok) ok = (archive ? link_archive : link_program)(l, n_objects, objects, path);
  if (ok && l->options->library) ok = library_write_header(l->options, l->folder, l->include);
  if (ok && rename(path, l->options->output) != 0) {
    fprintf(stderr, "nnc: error: cannot write '%s': %s\n", l->options->output, strerror(errno));
    ok = false;
  }
  free(path);
  free(l->folder);
  free(l->object);
  free(l->log);
  free(l->archive);
  for (int i = 0; i < READERS; i++) free(l->readers[i]);
  free(l->include);
  free(l);
  return ok;
}
