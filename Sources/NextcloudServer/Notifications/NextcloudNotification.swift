internal import Foundation

/// What a user of Nextcloud's apps is to know.
package struct NextcloudNotification: Sendable, Hashable {
  /// Its number, by which apps fetch it and it is taken back.
  package var nid: Int64
  /// Whose it is: letters, digits, `_`, `-` and `.`, at most 64.
  package var app: String
  /// What people read; cut in a push, where it does not fit.
  package var subject: String
  /// What they read besides, where there is room: never in a push.
  package var message: String
  /// What kind of thing it is about.
  package var type: String
  /// Which.
  package var id: String

  /// A notification by its parts.
  package init(nid: Int64, app: String, subject: String, message: String = "", type: String, id: String) {
    self.nid = nid
    self.app = app
    self.subject = subject
    self.message = message
    self.type = type
    self.id = id
  }
}
