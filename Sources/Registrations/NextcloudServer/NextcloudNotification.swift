public import Foundation

/// What a user of Nextcloud's apps is to know.
public struct NextcloudNotification: Sendable, Hashable {
  /// Its number, by which apps fetch it and it is taken back.
  public var nid: Int64
  /// Whose it is: letters, digits, `_`, `-` and `.`, at most 64.
  public var app: String
  /// What people read; cut in a push, where it does not fit.
  public var subject: String
  /// What they read besides, where there is room: never in a push.
  public var message: String
  /// What kind of thing it is about.
  public var type: String
  /// Which.
  public var id: String

  /// A notification by its parts.
  public init(nid: Int64, app: String, subject: String, message: String = "", type: String, id: String) {
    self.nid = nid
    self.app = app
    self.subject = subject
    self.message = message
    self.type = type
    self.id = id
  }
}
