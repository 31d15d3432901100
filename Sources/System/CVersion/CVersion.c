#include "CVersion.h"

#ifndef PUSH_BOUNCER_COMMIT
#define PUSH_BOUNCER_COMMIT ""
#endif

const char *push_bouncer_commit(void) { return PUSH_BOUNCER_COMMIT; }
