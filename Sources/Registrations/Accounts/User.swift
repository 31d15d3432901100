public import Foundation

/// A user of the built-in chat-server side.
public struct User: Sendable, Hashable {
  /// Its row.
  public let id: Int64
  /// Where it belongs.
  public let realm: ChatRealm
  /// Its number in the chat, which notifications tell.
  public let userID: Int64
  /// Its UUID, which bouncers know it by.
  public let uuid: UUID
  /// What it signs in with; unique in the service, whatever the case.
  public let email: String
  /// Its login at the Nextcloud endpoints; unique in the service, whatever the case.
  public let username: String
}
