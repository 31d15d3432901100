package import Foundation
package import Sealing

/// A client of a user that wants notifications (`Documentation/Protocols/Zulip.md` 10.2 to 10.5). A pure
/// state machine: what it is told changes it, and says which of its ``Fields`` its user's clients have to
/// hear of.
package struct Device: Sendable {
  /// What a user's clients see of a device.
  package struct State: Sendable, Hashable {
    /// The id of the key that notifications are sealed with.
    package var pushKeyID: UInt32?
    /// The token that gets notifications.
    package var tokenID: TokenID?
    /// The token that the bouncer has yet to accept, or has refused.
    package var pendingTokenID: TokenID?
    /// When the client last sent a token, in whole seconds.
    package var tokenUpdatedAt: Date?
    /// Why the bouncer refused the pending token.
    package var error: RegistrationError?

    /// A device that has sent nothing yet.
    package init() {}
  }

  /// Parts of a state.
  package struct Fields: OptionSet, Sendable, Hashable {
    /// A bit for each.
    package let rawValue: Int64

    /// By its bits.
    package init(rawValue: Int64) { self.rawValue = rawValue }

    /// ``State/pushKeyID``
    package static let pushKeyID = Fields(rawValue: 1)
    /// ``State/tokenID``
    package static let tokenID = Fields(rawValue: 2)
    /// ``State/pendingTokenID``
    package static let pendingTokenID = Fields(rawValue: 4)
    /// ``State/tokenUpdatedAt``
    package static let tokenUpdatedAt = Fields(rawValue: 8)
    /// ``State/error``
    package static let error = Fields(rawValue: 16)
  }

  /// Why a bouncer will never take a registration, under the names that clients know.
  package enum RegistrationError: String, Sendable, Hashable {
    /// The client sealed it to a key that the bouncer does not have.
    case invalidBouncerPublicKey = "INVALID_BOUNCER_PUBLIC_KEY"
    /// It did not reach the bouncer within a day.
    case requestExpired = "REQUEST_EXPIRED"
    /// Anything else that trying again would not change.
    case badRequest = "BAD_REQUEST"
  }

  /// Its id; never given twice.
  package let id: Int64
  /// The row of its user.
  package let user: Int64
  /// What clients see.
  package internal(set) var state: State
  /// The key that notifications are sealed with; nil if there is none yet, or it does not open.
  package internal(set) var pushKey: PushKey?
  /// Whose tokens it has.
  package internal(set) var kind: PushToken.Kind?

  /// The device as one that gets its notifications under this token, which it has or wants.
  package func reached(by token: TokenID) -> Device {
    var device = self
    device.state.tokenID = token
    return device
  }

  /// A token that has been in use for so long is registered again when its client sends it
  /// (`Documentation/Decisions` 0010).
  static let refreshAge: TimeInterval = 30 * 86_400
}

/// What a client wants of its device (`POST mobile_push/register`); one of both at least.
package struct DeviceRegistration: Sendable {
  /// The key to seal notifications with.
  package struct Key: Sendable {
    /// The client's name for it.
    package var id: UInt32
    /// nil is one that cannot be understood.
    package var key: PushKey?

    /// A key with its name.
    package init(id: UInt32, key: PushKey?) {
      self.id = id
      self.key = key
    }
  }

  /// The token to send to, which only the bouncer can read.
  package struct Token: Sendable {
    /// Whose.
    package var kind: PushToken.Kind
    /// nil is one that cannot be understood.
    package var id: TokenID?
    /// The bouncer's public key, as the client spelled it.
    package var bouncerPublicKey: String
    /// What is sealed to it, in base64.
    package var sealed: String

    /// A token by its parts.
    package init(kind: PushToken.Kind, id: TokenID?, bouncerPublicKey: String, sealed: String) {
      self.kind = kind
      self.id = id
      self.bouncerPublicKey = bouncerPublicKey
      self.sealed = sealed
    }
  }

  /// nil leaves the key as it is.
  package var key: Key?
  /// nil leaves the token as it is.
  package var token: Token?

  /// What a client wants.
  package init(key: Key?, token: Token?) {
    self.key = key
    self.token = token
  }
}

/// Why a device does not do what its client wants.
package enum DeviceError: Error, Sendable, Hashable {
  /// The user has no such device.
  case unknownDevice
  /// Neither a key nor a token, each complete, was sent.
  case nothingToDo
  /// There is no key yet that could be replaced.
  case noKeyToRotate
  /// There is no key yet to go with a token.
  case noKeyForToken
  /// The push key is not one.
  case invalidPushKey
  /// The token id is not 8 bytes in base64.
  case invalidTokenID
  /// The bouncer has not answered yet about another token.
  case inProgress
  /// The user has as many devices as one may have.
  case tooMany
}
