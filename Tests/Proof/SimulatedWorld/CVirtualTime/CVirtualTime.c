#define _GNU_SOURCE
#include "CVirtualTime.h"
#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static _Thread_local bool is_virtual;
static _Thread_local int64_t now;
static _Thread_local int64_t epoch;
static _Thread_local uint64_t state;

#if defined(__x86_64__)
static long kernel(long number, const long a[6]) {
  long result;
  register long r10 __asm__("r10") = a[3];
  register long r8 __asm__("r8") = a[4];
  register long r9 __asm__("r9") = a[5];
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "a"(number), "D"(a[0]), "S"(a[1]), "d"(a[2]), "r"(r10), "r"(r8), "r"(r9)
                   : "rcx", "r11", "memory");
  return result;
}
#elif defined(__aarch64__)
static long kernel(long number, const long a[6]) {
  register long x8 __asm__("x8") = number;
  register long x0 __asm__("x0") = a[0];
  register long x1 __asm__("x1") = a[1];
  register long x2 __asm__("x2") = a[2];
  register long x3 __asm__("x3") = a[3];
  register long x4 __asm__("x4") = a[4];
  register long x5 __asm__("x5") = a[5];
  __asm__ volatile("svc 0"
                   : "+r"(x0)
                   : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
                   : "memory");
  return x0;
}
#endif

static long checked(long result) {
  if (result < 0 && result > -4096) {
    errno = (int)-result;
    return -1;
  }
  return result;
}

// SplitMix64.
static uint64_t next(void) {
  uint64_t z = (state += 0x9E3779B97F4A7C15u);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

static void fill(unsigned char *bytes, size_t count) {
  for (size_t i = 0; i < count;) {
    uint64_t word = next();
    for (int j = 0; j < 8 && i < count; j++, i++) bytes[i] = (unsigned char)(word >> (8 * j));
  }
}

// In place of libc's: Foundation, the concurrency runtime and NIO ask it for the time.
int clock_gettime(clockid_t clock, struct timespec *time) {
  if (is_virtual) {
    int64_t value = clock == CLOCK_REALTIME ? epoch + now : now;
    time->tv_sec = value / 1000000000;
    time->tv_nsec = value % 1000000000;
    return 0;
  }
  long arguments[6] = {clock, (long)time};
  return (int)checked(kernel(SYS_clock_gettime, arguments));
}

// In place of libc's: Swift's random numbers come through it, eight bytes at a time. What else it is asked goes to the
// kernel: what seals and signs takes more, now and then, and for all worlds of a process together.
long syscall(long number, ...) {
  va_list list;
  va_start(list, number);
  long arguments[6];
  for (int i = 0; i < 6; i++) arguments[i] = va_arg(list, long);
  va_end(list);
  if (is_virtual && number == SYS_getrandom && arguments[1] == 8) {
    fill((unsigned char *)arguments[0], (size_t)arguments[1]);
    return arguments[1];
  }
  return checked(kernel(number, arguments));
}

void virtual_time_enter(uint64_t seed, int64_t epoch_seconds) {
  state = seed;
  // A monotonic clock never shows nothing.
  now = 1000000000000;
  epoch = epoch_seconds * 1000000000 - now;
  is_virtual = true;
}

void virtual_time_leave(void) { is_virtual = false; }
int64_t virtual_time_now(void) { return now; }
void virtual_time_set(int64_t nanoseconds) { now = nanoseconds; }

int64_t virtual_time_real(void) {
  struct timespec time;
  long arguments[6] = {CLOCK_MONOTONIC, (long)&time};
  kernel(SYS_clock_gettime, arguments);
  return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

bool virtual_time_is_world_thread(void) {
  static _Thread_local int known;
  if (!known) known = getpid() == gettid() ? 1 : 2;
  return known == 1;
}
