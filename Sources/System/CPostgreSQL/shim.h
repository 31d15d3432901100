#include <libpq-fe.h>

// Swift does not import macros of characters.
static const int CPG_DIAG_SQLSTATE = PG_DIAG_SQLSTATE;
static const int CPG_DIAG_MESSAGE_PRIMARY = PG_DIAG_MESSAGE_PRIMARY;
static const int CPG_DIAG_TABLE_NAME = PG_DIAG_TABLE_NAME;
static const int CPG_DIAG_COLUMN_NAME = PG_DIAG_COLUMN_NAME;
static const int CPG_DIAG_CONSTRAINT_NAME = PG_DIAG_CONSTRAINT_NAME;
