package import Foundation

extension ZulipImport {
  /// Writes CSV to a file, with every row that the latest run has refused: table, id and reason,
  /// never a token.
  ///
  /// - Returns: how many there are.
  /// - Throws: ``ZulipSourceError`` if the file cannot be written, or the database's error.
  @discardableResult
  package func writeRejects(to file: FileHandle) async throws -> Int {
    var count = 0
    var lines = Data("table,id,reason\n".utf8)
    func flush() throws {
      do { try file.write(contentsOf: lines) } catch {
        throw ZulipSourceError("the refused rows cannot be written: is the disk full?")
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
