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

/// An organization whose users sign in to the built-in chat-server side.
package struct ChatRealm: Sendable, Hashable {
  /// Its row.
  package let id: Int64
  /// Under which the host application and the bouncer know it.
  package let uuid: UUID
  /// What notifications call it.
  package let name: String
  /// Its address in notifications.
  package let url: String
  /// Whether legacy notifications, which are not encrypted, must go without content.
  package let requiresE2EE: Bool
  /// When it was added.
  package let createdAt: Date

  /// The host of its address; empty if it has none.
  package var host: String { URL(string: url)?.host() ?? "" }
}
