// Records what a program does to the files below one folder, so that Tests/Proof/PowerLoss/disk.py can make of it what a disk
// may hold after a power loss (Documentation/Proof/PowerLoss.md).
//
// Preloaded with LD_PRELOAD into each process of the program. POWER_LOSS_FOLDER names the folder (absolute and without
// links), POWER_LOSS_JOURNAL the file that gets the records, and POWER_LOSS_STATE what the processes share. An operation
// and its record are one step under one lock, so the records are in the order of the operations. At the record that the
// runner has chosen, the lock is kept for good: from then on nothing is written any more, and the runner kills all.
//
// Nothing is really synced: whether the disk has it is decided from the records alone.

#include "record.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

// What stands before each record's bytes; disk.py reads it.
struct record {
  uint32_t length, kind;
  uint64_t file, a, b;
};

struct state {
  pthread_mutex_t lock;
  _Atomic uint64_t count, cut_at;
  _Atomic uint32_t is_cut, ignores_sync;
};

static struct state *state;
static int journal = -1;
static char root[PATH_MAX];
static size_t root_length;

// For each descriptor the file's number and whether it is below the folder, as far as it is known.
enum { DESCRIPTORS = 65536 };
static _Atomic uint64_t known[DESCRIPTORS];

static struct state *map_state(const char *path) {
  int file = syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (file < 0 || syscall(SYS_ftruncate, file, sizeof(struct state))) return NULL;
  void *memory = (void *)syscall(SYS_mmap, NULL, sizeof(struct state), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  syscall(SYS_close, file);
  return memory == MAP_FAILED ? NULL : memory;
}

__attribute__((constructor)) static void begin(void) {
  const char *folder = getenv("POWER_LOSS_FOLDER"), *records = getenv("POWER_LOSS_JOURNAL");
  const char *shared = getenv("POWER_LOSS_STATE");
  if (!folder || !records || !shared) return;
  state = map_state(shared);
  int file = syscall(SYS_openat, AT_FDCWD, records, O_WRONLY | O_APPEND | O_CLOEXEC, 0);
  // A high number, which no program that closes its inherited files one by one expects.
  journal = fcntl(file, F_DUPFD_CLOEXEC, 900);
  if (!state || journal < 0) abort();
  syscall(SYS_close, file);
  root_length = strlen(strcpy(root, folder));
}

// For the runner: prepares the shared state. 0 cuts nowhere.
INSTEAD int power_loss_prepare(const char *path, uint64_t cut_at, int ignores_sync) {
  if (!(state = map_state(path))) return -1;
  memset(state, 0, sizeof *state);
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  state->cut_at = cut_at;
  state->ignores_sync = ignores_sync;
  return pthread_mutex_init(&state->lock, &attributes);
}
INSTEAD void power_loss_cut_after(uint64_t count) {
  lock();
  state->cut_at = state->count + count;
  state->is_cut = 0;
  unlock();
}
INSTEAD uint64_t power_loss_count(void) { return state->count; }
INSTEAD int power_loss_is_cut(void) { return state->is_cut; }

void lock(void) {
  if (pthread_mutex_lock(&state->lock) == EOWNERDEAD) pthread_mutex_consistent(&state->lock);
}

void unlock(void) {
  int error = errno;
  pthread_mutex_unlock(&state->lock);
  errno = error;
}

void record(enum kind kind, uint64_t file, uint64_t a, uint64_t b, const struct iovec *parts, int count, size_t length) {
  struct record head = {sizeof head + length, kind, file, a, b};
  struct iovec all[IOV_MAX] = {{&head, sizeof head}};
  int used = 1;
  for (int part = 0; part < count && length > 0; part++, used++) {
    if (used == IOV_MAX) abort();
    all[used].iov_base = parts[part].iov_base;
    all[used].iov_len = parts[part].iov_len < length ? parts[part].iov_len : length;
    length -= all[used].iov_len;
  }
  if (syscall(SYS_writev, journal, all, used) != head.length) abort();
  if (++state->count != state->cut_at) return;
  state->is_cut = 1;
  for (;;) pause();
}

void record_names(enum kind kind, uint64_t file, uint64_t a, uint64_t b, const char *first, const char *second) {
  struct iovec parts[] = {{(void *)first, strlen(first) + 1}, {(void *)second, strlen(second) + 1}};
  record(kind, file, a, b, parts, 2, parts[0].iov_len + parts[1].iov_len);
}

void record_plain(enum kind kind, uint64_t file, uint64_t a) { record(kind, file, a, 0, NULL, 0, 0); }

// The path of an open file, as the kernel knows it.
bool path_of(int file, char path[PATH_MAX]) {
  char link[32];
  snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  ssize_t length = syscall(SYS_readlinkat, AT_FDCWD, link, path, PATH_MAX - 1);
  path[length > 0 ? length : 0] = 0;
  return length > 0;
}

static bool is_below(int file) {
  char path[PATH_MAX];
  return path_of(file, path) && !strncmp(path, root, root_length) && (path[root_length] == '/' || !path[root_length]);
}

void forget(int file) {
  if (file >= 0 && file < DESCRIPTORS) known[file] = 0;
}

// Whether it is a file or folder of the folder.
bool is_watched(int file, struct stat *attributes) {
  if (!root_length || file < 0 || fstat(file, attributes)) return false;
  if (!S_ISREG(attributes->st_mode) && !S_ISDIR(attributes->st_mode)) return false;
  if (file >= DESCRIPTORS) return is_below(file);
  uint64_t before = known[file];
  if (before >> 1 == attributes->st_ino) return before & 1;
  bool below = is_below(file);
  known[file] = attributes->st_ino << 1 | below;
  return below;
}

struct place locate(int start, const char *path) {
  struct place place = {0};
  char parent[PATH_MAX];
  size_t length = strnlen(path, PATH_MAX - 1);
  memcpy(parent, path, length);
  while (length > 1 && parent[length - 1] == '/') length--;
  parent[length] = 0;
  char *slash = strrchr(parent, '/');
  const char *name = slash ? slash + 1 : parent;
  memcpy(place.name, name, strnlen(name, NAME_MAX));
  if (slash) slash[slash == parent] = 0;
  int folder = syscall(SYS_openat, start, slash ? parent : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return place;
  struct stat attributes;
  fstat(folder, &attributes);
  place.folder = attributes.st_ino;
  place.is_watched = is_below(folder);
  syscall(SYS_close, folder);
  return place;
}

uint64_t number(int start, const char *path) {
  struct stat attributes;
  return fstatat(start, path, &attributes, AT_SYMLINK_NOFOLLOW) ? 0 : attributes.st_ino;
}

uint64_t rights(const struct stat *attributes) { return (uint64_t)attributes->st_uid << 32 | attributes->st_mode; }

bool ignores_sync(void) { return state->ignores_sync; }
bool is_watching(void) { return root_length > 0; }
