package import Foundation
package import Logging
import Synchronization

/// What is found out about a request on its way: for the line in the log that tells of it when it is done.
package final class RequestNotes: Sendable {
  private struct Notes {
    var client: ClientAddress?
    var server: String?
    var realm: UUID?
    var error: String?
  }

  private let notes = Mutex(Notes())

  /// The client's address, once it is known whose word for it is believed.
  package func note(client: ClientAddress) { notes.withLock { $0.client = client } }

  /// The hostname of the chat server that has proved to be the caller.
  package func note(server: String) { notes.withLock { $0.server = server } }

  /// Whether the caller has proved to be a chat server.
  package var isFromServer: Bool { notes.withLock { $0.server != nil } }

  /// The realm that the call is about.
  package func note(realm: UUID?) { notes.withLock { $0.realm = realm } }

  /// The code of the error that the answer is.
  func note(error: String) { notes.withLock { $0.error = error } }

  /// What is known, as fields of a line.
  package var metadata: Logger.Metadata {
    let notes = notes.withLock { $0 }
    var metadata: Logger.Metadata = [:]
    metadata["client"] = notes.client.map { "\($0)" }
    metadata["server"] = notes.server.map { "\($0)" }
    metadata["realm"] = notes.realm.map { "\($0.uuidString.lowercased())" }
    metadata["error"] = notes.error.map { "\($0)" }
    return metadata
  }
}
