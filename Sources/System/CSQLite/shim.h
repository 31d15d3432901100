#include <sqlite3.h>

// Swift does not import macros that are made of others.
static const int CSQLITE_CONSTRAINT_CHECK = SQLITE_CONSTRAINT_CHECK;
static const int CSQLITE_CONSTRAINT_DATATYPE = SQLITE_CONSTRAINT_DATATYPE;
static const int CSQLITE_CONSTRAINT_FOREIGNKEY = SQLITE_CONSTRAINT_FOREIGNKEY;
static const int CSQLITE_CONSTRAINT_NOTNULL = SQLITE_CONSTRAINT_NOTNULL;
static const int CSQLITE_CONSTRAINT_PRIMARYKEY = SQLITE_CONSTRAINT_PRIMARYKEY;
static const int CSQLITE_CONSTRAINT_ROWID = SQLITE_CONSTRAINT_ROWID;
static const int CSQLITE_CONSTRAINT_UNIQUE = SQLITE_CONSTRAINT_UNIQUE;
static const int CSQLITE_BUSY_SNAPSHOT = SQLITE_BUSY_SNAPSHOT;

// Tells SQLite to copy what is bound before the call returns.
static inline int csqlite_bind_text(sqlite3_stmt *statement, int index, const char *text, sqlite3_uint64 count) {
  return sqlite3_bind_text64(statement, index, text, count, SQLITE_TRANSIENT, SQLITE_UTF8);
}
static inline int csqlite_bind_bytes(sqlite3_stmt *statement, int index, const void *bytes, sqlite3_uint64 count) {
  return sqlite3_bind_blob64(statement, index, bytes, count, SQLITE_TRANSIENT);
}
