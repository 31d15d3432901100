package import Foundation

/// What both sides of Zulip's wire have to mean alike.
package enum Zulip {
  /// What a phone shows until its app has decrypted the rest.
  package static let placeholder = "New notification"
  /// A removal tells of so many messages at most: the newest.
  package static let maximumRemovals = 200
  /// A device's registration that has not arrived after so many seconds is given up.
  package static let registrationLifetime: TimeInterval = 86_400
}

/// Errors that both sides of Zulip's wire use in the same words, and the codes that one side acts on.
extension APIError {
  /// Names that a chat server acts on.
  package enum Code {
    package static let missingRealm = "MISSING_REMOTE_REALM"
    package static let anothersRealm = "REMOTE_REALM_SERVER_MISMATCH_ERROR"
    package static let requestExpired = "REQUEST_EXPIRED"
    package static let invalidPublicKey = "INVALID_BOUNCER_PUBLIC_KEY"
    package static let unknownLegacyDevice = "INVALID_REMOTE_PUSH_DEVICE_TOKEN"
  }

  /// A legacy token that is not there.
  package static var tokenDoesNotExist: APIError { APIError("Token does not exist") }

  /// A parameter that is not what its name says.
  package static func invalidFormat(_ name: String) -> APIError { APIError("\(name) has invalid format") }
}
