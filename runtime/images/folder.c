// The reader `images`: a folder of images with a folder for each class, which are numbered in the order of their names,
// or as the program's `labels` are. Images stay in their files; names and classes are held in memory.
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "runtime/images/images.h"

typedef struct Names {   // sorted
  int64_t n, capacity;
  char **names;     // Owned
  int64_t n_left;   // images of formats that are not read
  char *left;       // Owned; one of them
} Names;

static void add_name(Names *l, char *name) {
  if (l->n == l->capacity) l->names = xrealloc(l->names, sizeof(char *) * (size_t)(l->capacity = 2 * l->capacity + 64));
  l->names[l->n++] = name;
}

static void free_names(Names *l) {
  for (int64_t i = 0; i < l->n; i++) free(l->names[i]);
  free(l->names), free(l->left);
  *l = (Names){0};
}

static int by_bytes(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static bool has_ending(const char *name, const char *const *endings) {
  const char *dot = strrchr(name, '.');
  for (; dot && *endings; endings++)
    if (!strcasecmp(dot + 1, *endings)) return true;
  return false;
}

static const char *const read_endings[] = {"jpg", "jpeg", "png", NULL}, *const other_endings[] = {"bmp", "gif",  "webp",
                                                                                                  "tif", "tiff", "ppm",
                                                                                                  "pgm", "jfif", "jpe",
                                                                                                  "jp2", "avif", "heic",
                                                                                                  NULL};

// A folder that is being listed, and those it is in.
typedef struct Place {
  const struct Place *outer;   // NULL: it is the root
  struct stat st;
} Place;

static bool is_inside(const Place *p, const struct stat *st) {
  for (; p; p = p->outer)
    if (p->st.st_dev == st->st_dev && p->st.st_ino == st->st_ino) return true;
  return false;
}

// The entries of root/below, as paths below root: its folders, or the images in it and in the folders below. A folder
// that a link leads back to from within gives nothing: what is there is listed once.
static bool list(const char *root, const char *below, const Place *outer, bool folders, Names *out) {
  char *path = *below ? xasprintf("%s/%s", root, below) : xstrdup(root);
  DIR *d = opendir(path);
  if (!d) report_error("cannot open the folder %s: %s", path, strerror(errno));
  free(path);
  Place here = {.outer = outer};
  bool ok = d && fstat(dirfd(d), &here.st) == 0, back = ok && is_inside(outer, &here.st);
  for (struct dirent *e; ok && !back && (e = readdir(d));) {
    if (e->d_name[0] == '.') continue;
    char *name = *below ? xasprintf("%s/%s", below, e->d_name) : xstrdup(e->d_name), *whole;
    struct stat st = {0};
    bool folder = e->d_type == DT_DIR;
    if (e->d_type == DT_LNK || e->d_type == DT_UNKNOWN) {
      whole = xasprintf("%s/%s", root, name);
      folder = stat(whole, &st) == 0 && S_ISDIR(st.st_mode);
      free(whole);
    }
    if (folder && !folders) ok = list(root, name, &here, false, out);
    if (!folders && !folder && has_ending(e->d_name, other_endings) && !out->n_left++) out->left = xstrdup(name);
    if (folders ? folder : !folder && has_ending(e->d_name, read_endings)) add_name(out, name);
    else free(name);
  }
  if (d) closedir(d);
  return ok;
}

static bool list_sorted(const char *root, const char *below, bool folders, Names *out) {
  *out = (Names){0};
  Place top = {0};
  if (*below && stat(root, &top.st) != 0) {
    report_error("cannot open the folder %s: %s", root, strerror(errno));
    return false;
  }
  if (!list(root, below, *below ? &top : NULL, folders, out)) return false;
  if (out->n) qsort(out->names, (size_t)out->n, sizeof(char *), by_bytes);
  return true;
}

// The one folder of that name, or that a pattern matches; *root NULL: it is not there. False after reporting several.
static bool find_root(const char *name, const char *folder, char **root) {
  DataPaths found = {0};
  data_find(name, folder, &found);
  bool ok = found.n < 2;
  if (!ok)
    report_error("images reads one folder, but %s matches %d, %s and %s among them", name, found.n, found.paths[0],
                 found.paths[1]);
  *root = ok && found.n ? xstrdup(found.paths[0]) : NULL;
  data_paths_free(&found);
  return ok;
}

// The folder of the first training line of images, which says what classes there are; *root NULL: it is not there.
static bool training_folder(const char *folder, char **root) {
  *root = NULL;
  for (int i = 0; i < nnc_program.n_data; i++) {
    const NncData *d = &nnc_program.data[i];
    if (d->open == nnc_open_images && strcmp(d->split, "train") == 0) return find_root(d->files[0], folder, root);
  }
  return true;
}

// The classes in the order of their numbers.
static bool list_classes(const char *root, const char *folder, Names *out) {
  *out = (Names){0};
  for (int i = 0; i < nnc_program.n_labels; i++) add_name(out, xstrdup(nnc_program.labels[i]));
  if (out->n) return true;
  char *training;
  bool ok = training_folder(folder, &training) && list_sorted(training ? training : root, "", true, out);
  free(training);
  return ok;
}

static int64_t find_class(const Names *classes, const char *name) {
  for (int64_t i = 0; i < classes->n; i++)
    if (strcmp(classes->names[i], name) == 0) return i;
  return -1;
}

// What the folder holds: paths of images below it, and the class of each.
typedef struct Listing {
  Names images;
  int32_t *classes;   // Owned
} Listing;

// What one may not expect of a folder: images that are passed over, none at all.
static void warn_of_folder(const char *root, const char *name, const Names *images) {
  if (images->n_left)
    report_warning("%s/%s: %lld image%s neither JPEG nor PNG by the ending of the name, and left out: %s", root, name,
                   (long long)images->n_left, images->n_left > 1 ? "s are" : " is", images->left);
  if (images->n == 0) report_warning("%s/%s holds no images, and counts as a class", root, name);
}

static bool list_class(const char *root, const char *name, int64_t class, Listing *l) {
  Names images;
  bool ok = list_sorted(root, name, false, &images);
  if (ok) warn_of_folder(root, name, &images);
  l->classes = xrealloc(l->classes, sizeof(int32_t) * (size_t)(l->images.n + images.n + 1));
  for (int64_t i = 0; i < images.n; i++) {
    l->classes[l->images.n] = (int32_t) class;
    add_name(&l->images, images.names[i]);
  }
  free(images.names), free(images.left);
  return ok;
}

static bool list_images(const char *root, const Names *classes, Listing *l) {
  Names folders;
  bool ok = list_sorted(root, "", true, &folders);
  for (int64_t i = 0; i < folders.n && ok; i++) {
    int64_t class = find_class(classes, folders.names[i]);
    if (class < 0) report_error("%s/%s: the program has no class of this name", root, folders.names[i]);
    ok = class >= 0 && list_class(root, folders.names[i], class, l);
  }
  free_names(&folders);
  if (ok && l->images.n == 0)
    report_error("%s has no folders with images (.jpg, .jpeg, .png): a folder for each class is expected", root);
  return ok && l->images.n > 0;
}

// ---------------------------------------------------------------------------------------------------------------------

// The block of a column: this, where each path begins, the paths. Nothing in it points anywhere, so that ranks can
// compare it.
typedef struct Folder {
  ImageShape shape;
  int64_t n;
  uint64_t paths[];   // their first bytes in the block
} Folder;

static bool fetch_image(const Column *c, int64_t record, void *room, char *to) {
  const Folder *f = c->block;
  char path[4096];
  int n = snprintf(path, sizeof path, "%s/%s", c->path, (const char *)f + f->paths[record]);
  if (n < 0 || n >= (int)sizeof path) {
    report_error("%s: a path of more than %d bytes", c->path, (int)sizeof path);
    errno = ENAMETOOLONG;
    return false;
  }
  return decode_image(path, &f->shape, room, (unsigned char *)to);
}

static void give_images(const Names *images, const ImageShape *s, const char *root, Column *c) {
  size_t bytes = sizeof(Folder) + sizeof(uint64_t) * (size_t)images->n, at = bytes;
  for (int64_t i = 0; i < images->n; i++) bytes += strlen(images->names[i]) + 1;
  Folder *f = xcalloc(bytes, 1);
  f->shape = *s;
  f->n = images->n;
  for (int64_t i = 0; i < images->n; i++) {
    f->paths[i] = at;
    strcpy((char *)f + at, images->names[i]);
    at += strlen(images->names[i]) + 1;
  }
  *c = (Column){.path = xstrdup(root),
                .dtype = NNC_U8,
                .rank = 3,
                .dim = {s->channels, s->height, s->width},
                .records = images->n,
                .record_bytes = s->channels * s->height * s->width,
                .block = f,
                .block_bytes = (int64_t)bytes,
                .fetch = fetch_image,
                .room_bytes = decode_room_bytes(s)};
}

static void give_classes(Listing *l, const char *root, Column *c) {
  *c = (Column){.path = xstrdup(root),
                .dtype = NNC_I32,
                .records = l->images.n,
                .record_bytes = sizeof(int32_t),
                .block = l->classes,
                .values = (char *)l->classes,
                .block_bytes = l->images.n * (int64_t)sizeof(int32_t)};
  l->classes = NULL;
  data_one_piece(c);
}

static bool check_classes(const char *root, const Names *classes, const NncTensor *label) {
  if (!label || label->limit <= 0 || classes->n <= label->limit) return true;
  report_error("%s has %lld folders, one for each class, where %s takes %lld", root, (long long)classes->n, label->name,
               (long long)label->limit);
  return false;
}

bool nnc_open_images(const NncData *d, const NncFunction *f, const char *folder, Column *columns) {
  const NncTensor *image = function_input(f, d->names[0]),
                  *label = d->n_names > 1 ? function_input(f, d->names[1]) : NULL;
  int rank = image ? image->rank : 0;
  ImageShape shape = {rank > 3 ? image->dim[rank - 3] : 1, rank > 2 ? image->dim[rank - 2] : 1,
                      rank > 1 ? image->dim[rank - 1] : 1, d->resize};
  char *root;
  if (!find_root(d->files[0], folder, &root)) return false;
  if (!root) {
    data_report_missing(d->files[0], folder);
    return false;
  }
  Names classes = {0};
  Listing l = {0};
  bool ok = list_classes(root, folder, &classes) && list_images(root, &classes, &l) &&
            check_classes(root, &classes, label);
  if (ok) give_images(&l.images, &shape, root, &columns[0]), data_one_piece(&columns[0]);
  if (ok && d->n_names > 1) give_classes(&l, root, &columns[1]);
  free(l.classes);
  free_names(&l.images);
  free_names(&classes);
  free(root);
  return ok;
}
