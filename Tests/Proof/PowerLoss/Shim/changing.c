// Changing and syncing files, and changing names.
#include "record.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>

// Writes at an offset, or where the file stands if that is negative.
static ssize_t write_at(int file, const struct iovec *parts, int count, off_t offset, int flags) {
  struct stat attributes;
  bool watched = is_watched(file, &attributes);
  if (watched) lock();
  ssize_t written = offset < 0 ? syscall(SYS_writev, file, parts, count)
                               : syscall(SYS_pwritev2, file, parts, count, offset, 0, flags);
  if (!watched) return written;
  if (written > 0) {
    off_t start = offset < 0 ? lseek(file, 0, SEEK_CUR) - written : offset;
    record(WRITE, attributes.st_ino, start, 0, parts, count, written);
    if (fcntl(file, F_GETFL) & O_DSYNC) record_plain(SYNC, attributes.st_ino, 0);
  }
  unlock();
  return written;
}

INSTEAD ssize_t write(int file, const void *bytes, size_t count) {
  return write_at(file, &(struct iovec){(void *)bytes, count}, 1, -1, 0);
}
INSTEAD ssize_t pwrite(int file, const void *bytes, size_t count, off_t offset) {
  return write_at(file, &(struct iovec){(void *)bytes, count}, 1, offset, 0);
}
INSTEAD ssize_t writev(int file, const struct iovec *parts, int count) { return write_at(file, parts, count, -1, 0); }
INSTEAD ssize_t pwritev(int file, const struct iovec *parts, int count, off_t offset) {
  return write_at(file, parts, count, offset, 0);
}
INSTEAD ssize_t pwritev2(int file, const struct iovec *parts, int count, off_t offset, int flags) {
  return write_at(file, parts, count, offset, flags);
}
ssize_t pwrite64(int file, const void *bytes, size_t count, off_t offset) ALIAS(pwrite);
ssize_t pwritev64(int file, const struct iovec *parts, int count, off_t offset) ALIAS(pwritev);
ssize_t pwritev64v2(int file, const struct iovec *parts, int count, off_t offset, int flags) ALIAS(pwritev2);

// Programs do without these where a file system does not have them.
INSTEAD ssize_t copy_file_range(int from, off_t *start, int to, off_t *end, size_t count, unsigned flags) {
  struct stat attributes;
  if (is_watched(to, &attributes)) return errno = EXDEV, -1;
  return syscall(SYS_copy_file_range, from, start, to, end, count, flags);
}
INSTEAD ssize_t sendfile(int to, int from, off_t *start, size_t count) {
  struct stat attributes;
  if (is_watched(to, &attributes)) return errno = EINVAL, -1;
  return syscall(SYS_sendfile, to, from, start, count);
}
ssize_t sendfile64(int to, int from, off_t *start, size_t count) ALIAS(sendfile);

// Sizes.

INSTEAD int ftruncate(int file, off_t size) {
  struct stat attributes;
  bool watched = is_watched(file, &attributes);
  if (watched) lock();
  int result = syscall(SYS_ftruncate, file, size);
  if (!watched) return result;
  if (!result) record_plain(SIZE, attributes.st_ino, size);
  unlock();
  return result;
}
int ftruncate64(int file, off_t size) ALIAS(ftruncate);

INSTEAD int truncate(const char *path, off_t size) {
  int file = open(path, O_WRONLY | O_CLOEXEC);
  if (file < 0) return -1;
  int result = ftruncate(file, size), error = errno;
  close(file);
  return errno = error, result;
}
int truncate64(const char *path, off_t size) ALIAS(truncate);

INSTEAD int fallocate(int file, int mode, off_t offset, off_t length) {
  struct stat attributes;
  bool watched = is_watched(file, &attributes);
  // Only room at the end is known to the records.
  if (watched && mode) return errno = EOPNOTSUPP, -1;
  if (watched) lock();
  int result = syscall(SYS_fallocate, file, mode, offset, length);
  if (!watched) return result;
  if (!result && offset + length > attributes.st_size) record_plain(SIZE, attributes.st_ino, offset + length);
  unlock();
  return result;
}
int fallocate64(int file, int mode, off_t offset, off_t length) ALIAS(fallocate);
INSTEAD int posix_fallocate(int file, off_t offset, off_t length) { return fallocate(file, 0, offset, length) ? errno : 0; }
int posix_fallocate64(int file, off_t offset, off_t length) ALIAS(posix_fallocate);

// Syncing. What only asks for it (sync_file_range), or maps (msync), counts for nothing.

INSTEAD int fsync(int file) {
  struct stat attributes;
  if (!is_watched(file, &attributes)) return syscall(SYS_fsync, file);
  lock();
  if (!ignores_sync()) record_plain(SYNC, attributes.st_ino, 0);
  unlock();
  return 0;
}
INSTEAD int fdatasync(int file) { return fsync(file); }

// Names.

static void check(bool known, const char *what, const char *path) {
  if (known) return;
  fprintf(stderr, "power loss: %s of %s is not known to the records\n", what, path);
  abort();
}

INSTEAD int renameat2(int start, const char *path, int end, const char *other, unsigned flags) {
  if (!is_watching()) return syscall(SYS_renameat2, start, path, end, other, flags);
  lock();
  struct place from = locate(start, path), to = locate(end, other);
  uint64_t file = number(start, path);
  int result = syscall(SYS_renameat2, start, path, end, other, flags);
  if (!result && (from.is_watched || to.is_watched)) {
    check(from.is_watched && to.is_watched && !(flags & ~1u), "rename", path);
    record_names(RENAME, file, from.folder, to.folder, from.name, to.name);
  }
  unlock();
  return result;
}
INSTEAD int renameat(int start, const char *path, int end, const char *other) { return renameat2(start, path, end, other, 0); }
INSTEAD int rename(const char *path, const char *other) { return renameat2(AT_FDCWD, path, AT_FDCWD, other, 0); }

INSTEAD int linkat(int start, const char *path, int end, const char *other, int flags) {
  if (!is_watching()) return syscall(SYS_linkat, start, path, end, other, flags);
  lock();
  struct place to = locate(end, other);
  int result = syscall(SYS_linkat, start, path, end, other, flags);
  if (!result && to.is_watched) record_names(LINK, number(end, other), to.folder, 0, to.name, "");
  unlock();
  return result;
}
INSTEAD int link(const char *path, const char *other) { return linkat(AT_FDCWD, path, AT_FDCWD, other, 0); }

INSTEAD int symlinkat(const char *target, int start, const char *path) {
  if (!is_watching()) return syscall(SYS_symlinkat, target, start, path);
  lock();
  struct place place = locate(start, path);
  int result = syscall(SYS_symlinkat, target, start, path);
  if (!result && place.is_watched) record_names(SYMLINK, number(start, path), place.folder, 0, place.name, target);
  unlock();
  return result;
}
INSTEAD int symlink(const char *target, const char *path) { return symlinkat(target, AT_FDCWD, path); }

INSTEAD int unlinkat(int start, const char *path, int flags) {
  if (!is_watching()) return syscall(SYS_unlinkat, start, path, flags);
  lock();
  struct place place = locate(start, path);
  int result = syscall(SYS_unlinkat, start, path, flags);
  if (!result && place.is_watched) record_names(UNLINK, 0, place.folder, 0, place.name, "");
  unlock();
  return result;
}
INSTEAD int unlink(const char *path) { return unlinkat(AT_FDCWD, path, 0); }
INSTEAD int rmdir(const char *path) { return unlinkat(AT_FDCWD, path, AT_REMOVEDIR); }
INSTEAD int remove(const char *path) {
  int result = unlink(path);
  return result && (errno == EISDIR || errno == EPERM) ? rmdir(path) : result;
}

INSTEAD int mkdirat(int start, const char *path, mode_t mode) {
  if (!is_watching()) return syscall(SYS_mkdirat, start, path, mode);
  lock();
  struct place place = locate(start, path);
  int result = syscall(SYS_mkdirat, start, path, mode);
  struct stat attributes;
  if (!result && place.is_watched && !fstatat(start, path, &attributes, 0)) {
    record_names(FOLDER, attributes.st_ino, place.folder, rights(&attributes), place.name, "");
  }
  unlock();
  return result;
}
INSTEAD int mkdir(const char *path, mode_t mode) { return mkdirat(AT_FDCWD, path, mode); }
