#pragma once
#include <stdbool.h>
#include <stdint.h>

// Time and chance of one thread, as its program sees them through libc: while it is in a world, clock_gettime tells
// the world's time and getrandom gives the world's random numbers. Other threads are not concerned.

/// Enters a world: its clocks begin here, its random numbers follow from the seed.
void virtual_time_enter(uint64_t seed, int64_t epoch_seconds);
void virtual_time_leave(void);
/// Nanoseconds since the thread entered.
int64_t virtual_time_now(void);
void virtual_time_set(int64_t nanoseconds);
/// The real monotonic clock, in nanoseconds.
int64_t virtual_time_real(void);
/// Whether this is the thread that the program began with.
bool virtual_time_is_world_thread(void);
