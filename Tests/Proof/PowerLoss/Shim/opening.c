// Opening, creating and mapping files.
#include "record.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

static int open_at(int start, const char *path, int flags, mode_t mode) {
  bool changes = flags & (O_CREAT | O_TRUNC), created = false;
  if (is_watching() && (flags & O_TMPFILE) == O_TMPFILE) return errno = EOPNOTSUPP, -1;
  if (!is_watching() || !changes) {
    int file = syscall(SYS_openat, start, path, flags, mode);
    forget(file);
    return file;
  }
  lock();
  int file = -1;
  if (!(flags & O_EXCL)) file = syscall(SYS_openat, start, path, flags & ~O_CREAT, mode);
  if (file < 0 && flags & O_CREAT && (flags & O_EXCL || errno == ENOENT)) {
    file = syscall(SYS_openat, start, path, flags | O_EXCL, mode);
    created = file >= 0;
  }
  forget(file);
  struct stat attributes;
  if (is_watched(file, &attributes)) {
    char real[PATH_MAX];
    if (created && path_of(file, real)) {
      struct place place = locate(AT_FDCWD, real);
      record_names(CREATE, attributes.st_ino, place.folder, rights(&attributes), place.name, "");
    } else if (flags & O_TRUNC) {
      record_plain(SIZE, attributes.st_ino, 0);
    }
  }
  unlock();
  return file;
}

#define WITH_MODE(flags)                             \
  mode_t mode = 0;                                   \
  if ((flags) & (O_CREAT | O_TMPFILE)) {             \
    va_list list;                                    \
    va_start(list, flags);                           \
    mode = va_arg(list, mode_t);                     \
    va_end(list);                                    \
  }

INSTEAD int open(const char *path, int flags, ...) { WITH_MODE(flags) return open_at(AT_FDCWD, path, flags, mode); }
INSTEAD int openat(int start, const char *path, int flags, ...) { WITH_MODE(flags) return open_at(start, path, flags, mode); }
INSTEAD int creat(const char *path, mode_t mode) { return open_at(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode); }
// What programs call that were compiled with _FORTIFY_SOURCE.
INSTEAD int __open_2(const char *path, int flags) { return open_at(AT_FDCWD, path, flags, 0); }
INSTEAD int __openat_2(int start, const char *path, int flags) { return open_at(start, path, flags, 0); }
int open64(const char *path, int flags, ...) ALIAS(open);
int openat64(int start, const char *path, int flags, ...) ALIAS(openat);
int creat64(const char *path, mode_t mode) ALIAS(creat);
int __open64_2(const char *path, int flags) ALIAS(__open_2);
int __openat64_2(int start, const char *path, int flags) ALIAS(__openat_2);

// Writes within the C library are not seen: whatever such a file holds at the cut may be there or not.
INSTEAD FILE *fopen(const char *path, const char *mode) {
  bool both = strchr(mode, '+');
  int flags = both ? O_RDWR : *mode == 'r' ? O_RDONLY : O_WRONLY;
  if (*mode != 'r') flags |= O_CREAT | (*mode == 'a' ? O_APPEND : O_TRUNC);
  if (strchr(mode, 'x')) flags |= O_EXCL;
  if (strchr(mode, 'e')) flags |= O_CLOEXEC;
  int file = open_at(AT_FDCWD, path, flags, 0666);
  if (file < 0) return NULL;
  struct stat attributes;
  if ((both || *mode != 'r') && is_watched(file, &attributes)) {
    lock();
    record_plain(UNSEEN, attributes.st_ino, 0);
    unlock();
  }
  return fdopen(file, mode);
}
FILE *fopen64(const char *path, const char *mode) ALIAS(fopen);

INSTEAD void *mmap(void *address, size_t length, int protection, int flags, int file, off_t offset) {
  void *memory = (void *)syscall(SYS_mmap, address, length, protection, flags, file, offset);
  struct stat attributes;
  bool writes = protection & PROT_WRITE && flags & MAP_SHARED && !(flags & MAP_ANONYMOUS);
  if (writes && memory != MAP_FAILED && is_watched(file, &attributes)) {
    lock();
    record_plain(UNSEEN, attributes.st_ino, 0);
    unlock();
  }
  return memory;
}
void *mmap64(void *address, size_t length, int protection, int flags, int file, off_t offset) ALIAS(mmap);
