#include <sodium.h>

#ifdef __linux__
#include <sys/prctl.h>
#endif

// Swift cannot call prctl, which takes as many arguments as it likes. 0 if it has worked.
static inline int process_forbid_dumps(void) {
#ifdef __linux__
  return prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
#else
  return 0;
#endif
}
