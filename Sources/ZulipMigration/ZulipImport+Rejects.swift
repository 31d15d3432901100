internal import Foundation

extension ZulipImport {
  /// Writes a CSV file, mode 0600, with every row that the latest run has refused: table, id and reason,
  /// never a token.
  ///
  /// - Returns: how many there are.
  /// - Throws: ``ZulipSourceError`` if the file cannot be written, or the database's error.
  @discardableResult
  package func writeRejects(to path: String) async throws -> Int {
    let file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
    // A file that was there keeps its mode otherwise.
    guard file >= 0, fchmod(file, 0o600) == 0 else {
      throw ZulipSourceError("\(path) cannot be written")
    }
    let handle = FileHandle(fileDescriptor: file, closeOnDealloc: true)
    var count = 0
    var lines = Data("table,id,reason\n".utf8)
    func flush() throws {
      do { try handle.write(contentsOf: lines) } catch {
        throw ZulipSourceError("\(path) cannot be written: is the disk full?")
      }
      lines.removeAll(keepingCapacity: true)
    }
    try await journal.rejects { table, id, reason in
      lines += Data("\(table),\(id),\(reason)\n".utf8)
      count += 1
      if lines.count > 1 << 16 { try flush() }
    }
    try flush()
    return count
  }
}
