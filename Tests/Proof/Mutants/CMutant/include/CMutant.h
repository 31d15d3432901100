#include <stdbool.h>

/// The number of the mutant that is active, 0 for none, and a byte for each that has been passed through.
extern int mutant_active;
extern unsigned char *mutant_reached;

/// Whether a mutant is active. Notes that the program has been here.
static inline bool mutant(int number) {
  mutant_reached[number] = 1;
  return number == mutant_active;
}
