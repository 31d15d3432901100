import CPostgreSQL
import Dispatch
import Foundation

extension PostgreSQLSettings {
  /// Why there is no connection, in libpq's words, found by trying once more.
  func obstacle() async -> DatabaseError {
    await withCheckedContinuation { continuation in
      DispatchQueue(label: "PostgreSQL obstacle").async { continuation.resume(returning: blockingObstacle()) }
    }
  }

  private func blockingObstacle() -> DatabaseError {
    let handle = connect()
    defer { PQfinish(handle) }
    guard PQstatus(handle) != CONNECTION_OK else {
      return DatabaseError(.connectionLost, "the server is there again after it was away")
    }
    let message = handle.map { String(cString: PQerrorMessage($0)) } ?? "out of memory"
    // What is indented only guesses at the cause of the line before.
    let lines = message.split(whereSeparator: \.isNewline).filter { !$0.hasPrefix("\t") }
    return DatabaseError(.unreachable, lines.joined(separator: "; "))
  }
}
