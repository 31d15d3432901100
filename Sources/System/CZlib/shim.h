#include <zlib.h>

// Swift does not import macros that call a function.
static inline int czlib_inflate_init_raw(z_streamp stream) { return inflateInit2(stream, -MAX_WBITS); }
