#pragma once
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

// Functions that come in two names, with offsets of 64 bits in both.
_Static_assert(sizeof(off_t) == 8, "offsets have 64 bits");
#define ALIAS(name) __attribute__((alias(#name), visibility("default")))
#define INSTEAD __attribute__((visibility("default")))

// What a record says happened; disk.py has the same list.
enum kind { CREATE = 1, FOLDER, LINK, SYMLINK, UNLINK, RENAME, WRITE, SIZE, SYNC, UNSEEN };

// A name and the number of the folder that it is in.
struct place {
  uint64_t folder;
  bool is_watched;
  char name[NAME_MAX + 1];
};

// Whether this process has a folder to watch.
bool is_watching(void);
// Whether an open file is a file or a folder of the watched folder.
bool is_watched(int file, struct stat *attributes);
// To be called when a descriptor gets a new file.
void forget(int file);
bool path_of(int file, char path[PATH_MAX]);
struct place locate(int start, const char *path);
// The number of the file that a name stands for, itself if it is a link; 0 if there is none.
uint64_t number(int start, const char *path);
// Owner and permissions in one.
uint64_t rights(const struct stat *attributes);

// An operation and its record are one step between these two.
void lock(void);
void unlock(void);
void record(enum kind kind, uint64_t file, uint64_t a, uint64_t b, const struct iovec *parts, int count, size_t length);
void record_plain(enum kind kind, uint64_t file, uint64_t a);
void record_names(enum kind kind, uint64_t file, uint64_t a, uint64_t b, const char *first, const char *second);
bool ignores_sync(void);
