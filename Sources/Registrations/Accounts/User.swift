package import Foundation

/// A user of the built-in chat-server side.
package struct User: Sendable, Hashable {
  /// Its row.
  package let id: Int64
  /// Where it belongs.
  package let realm: ChatRealm
  /// Its number in the chat, which notifications tell.
  package let userID: Int64
  /// Its UUID, which bouncers know it by.
  package let uuid: UUID
  /// What it signs in with; unique in the service, whatever the case.
  package let email: String
  /// Its login at the Nextcloud endpoints; unique in the service, whatever the case.
  package let username: String
}
