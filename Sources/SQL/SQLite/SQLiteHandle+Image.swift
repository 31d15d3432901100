import CSQLite

extension SQLiteHandle {
  /// All pages of the database: what a file would hold.
  package func image() -> [UInt8] {
    var size: sqlite3_int64 = 0
    guard let bytes = sqlite3_serialize(connection, "main", &size, 0) else { return [] }
    defer { sqlite3_free(bytes) }
    return Array(UnsafeBufferPointer(start: bytes, count: Int(size)))
  }

  /// Holds these pages from now on, in memory, instead of its own.
  package func load(_ image: [UInt8]) throws(DatabaseError) {
    let size = sqlite3_int64(image.count)
    guard let bytes = sqlite3_malloc64(UInt64(image.count)) else {
      throw DatabaseError(.io, "no memory for a database")
    }
    bytes.copyMemory(from: image, byteCount: image.count)
    let code = sqlite3_deserialize(
      connection, "main", bytes.assumingMemoryBound(to: UInt8.self), size, size,
      UInt32(SQLITE_DESERIALIZE_FREEONCLOSE | SQLITE_DESERIALIZE_RESIZEABLE))
    guard code == SQLITE_OK else { throw DatabaseError(sqlite: code, connection) }
  }
}
