internal import Foundation
internal import HTTP
internal import Sealing

/// A client of a user that wants notifications (`Documentation/Protocols/Zulip.md` 10.2 to 10.5). A pure
/// state machine: what it is told changes it, and says which of its ``Fields`` its user's clients have to
/// hear of.
struct Device: Sendable {
  /// What a user's clients see of a device.
  struct State: Sendable, Hashable {
    /// The id of the key that notifications are sealed with.
    var pushKeyID: UInt32?
    /// The token that gets notifications.
    var tokenID: TokenID?
    /// The token that the bouncer has yet to accept, or has refused.
    var pendingTokenID: TokenID?
    /// When the client last sent a token, in whole seconds.
    var tokenUpdatedAt: Date?
    var error: RegistrationError?
  }

  /// Parts of a state.
  struct Fields: OptionSet, Sendable, Hashable {
    let rawValue: Int64

    static let pushKeyID = Fields(rawValue: 1)
    static let tokenID = Fields(rawValue: 2)
    static let pendingTokenID = Fields(rawValue: 4)
    static let tokenUpdatedAt = Fields(rawValue: 8)
    static let error = Fields(rawValue: 16)
  }

  /// Why a bouncer will never take a registration, under the names that clients know.
  enum RegistrationError: String, Sendable, Hashable {
    /// The client sealed it to a key that the bouncer does not have.
    case invalidBouncerPublicKey = "INVALID_BOUNCER_PUBLIC_KEY"
    /// It did not reach the bouncer within a day.
    case requestExpired = "REQUEST_EXPIRED"
    /// Anything else that trying again would not change.
    case badRequest = "BAD_REQUEST"
  }

  /// Its id; never given twice.
  let id: Int64
  /// The row of its user.
  let user: Int64
  var state: State
  /// The key that notifications are sealed with; nil if there is none yet, or it does not open.
  var pushKey: PushKey?
  var kind: PushToken.Kind?

  /// The device as one that gets its notifications under this token, which it has or wants.
  func reached(by token: TokenID) -> Device {
    var device = self
    device.state.tokenID = token
    return device
  }

  /// A token that has been in use for so long is registered again when its client sends it
  /// (`Documentation/Decisions` 0010).
  static let refreshAge: TimeInterval = 30 * 86_400
}

/// What a client wants of its device (`POST mobile_push/register`); one of both at least.
struct DeviceRegistration: Sendable {
  /// The key to seal notifications with.
  struct Key: Sendable {
    var id: UInt32
    /// nil is one that cannot be understood.
    var key: PushKey?
  }

  /// The token to send to, which only the bouncer can read.
  struct Token: Sendable {
    var kind: PushToken.Kind
    /// nil is one that cannot be understood.
    var id: TokenID?
    /// The bouncer's public key, as the client spelled it.
    var bouncerPublicKey: String
    /// What is sealed to it, in base64.
    var sealed: String
  }

  /// nil leaves the key as it is.
  var key: Key?
  /// nil leaves the token as it is.
  var token: Token?
}

/// Why a device does not do what its client wants, in the words of Zulip's.
enum DeviceError: String, Error {
  case unknownDevice = "Invalid `device_id`"
  case nothingToDo = "Missing parameters: must provide either all push key fields, all token fields, or both."
  case noKeyToRotate = "No push registration exists to rotate key for."
  case noKeyForToken = "No push registration exists to rotate token for."
  case invalidPushKey = "Invalid `push_key`"
  case invalidTokenID = "`token_id` is not Base64 encoded"
  /// The bouncer has not answered yet about another token.
  case inProgress = "A registration for the device already in progress."
  /// See ``Devices/maximumPerUser``.
  case tooMany = "Too many devices (limit: 500): remove one first."
}

extension Device {
  /// Takes what the client sent, in the order of `Documentation/Protocols/Zulip.md` 10.4.
  ///
  /// - Returns: what changed. With ``Fields/pendingTokenID`` among it the token goes to the bouncer.
  mutating func register(_ registration: DeviceRegistration, now: Date) throws(DeviceError) -> Fields {
    if let token = registration.token { return try take(token, registration.key, now: now) }
    guard let key = registration.key else { throw .nothingToDo }
    guard state.pushKeyID != nil else { throw .noKeyToRotate }
    return try take(key)
  }

  private mutating func take(
    _ token: DeviceRegistration.Token, _ key: DeviceRegistration.Key?, now: Date
  ) throws(DeviceError) -> Fields {
    guard state.pendingTokenID == nil || state.error != nil else { throw .inProgress }
    guard let tokenID = token.id else { throw .invalidTokenID }
    var changed: Fields = []
    var isKnown = state.error == nil && state.tokenID == tokenID && isFresh(now)
    if let key {
      let kindThen = kind
      changed = try take(key)
      kind = token.kind
      isKnown = isKnown && changed.isEmpty && kindThen == token.kind
    } else if state.pushKeyID == nil {
      throw .noKeyForToken
    }
    guard !isKnown else { return [] }
    state.pendingTokenID = tokenID
    state.tokenUpdatedAt = Date(timeIntervalSince1970: now.timeIntervalSince1970.rounded(.down))
    state.error = nil
    // Clients hear of the key too wherever one was sent, as upstream does it.
    return changed.union([.pendingTokenID, .tokenUpdatedAt, .error]).union(key == nil ? [] : .pushKeyID)
  }

  private mutating func take(_ new: DeviceRegistration.Key) throws(DeviceError) -> Fields {
    guard let key = new.key else { throw .invalidPushKey }
    if state.pushKeyID == new.id, let pushKey, pushKey == key { return [] }
    state.pushKeyID = new.id
    pushKey = key
    return .pushKeyID
  }

  private func isFresh(_ now: Date) -> Bool {
    state.tokenUpdatedAt.map { now.timeIntervalSince($0) < Self.refreshAge } ?? false
  }

  /// The bouncer has accepted a token. Nothing, if another is wanted meanwhile.
  mutating func accepted(_ tokenID: TokenID) -> Fields {
    guard state.pendingTokenID == tokenID, state.error == nil else { return [] }
    state.tokenID = tokenID
    state.pendingTokenID = nil
    return [.tokenID, .pendingTokenID]
  }

  /// The bouncer will never take a token. It stays pending, so that the client knows which it was.
  mutating func refused(_ tokenID: TokenID, _ error: RegistrationError) -> Fields {
    guard state.pendingTokenID == tokenID, state.error == nil else { return [] }
    state.error = error
    return .error
  }

  mutating func lost(_ tokenID: TokenID) -> Fields {
    guard state.tokenID == tokenID else { return [] }
    state.tokenID = nil
    return .tokenID
  }
}

extension Device.State {
  /// As clients know it (`Documentation/Protocols/Zulip.md` 10.2): all of it, or only some parts.
  func members(_ fields: Device.Fields? = nil) -> [JSON.Object.Member] {
    let time = tokenUpdatedAt.map { Int64($0.timeIntervalSince1970) }
    let all: [(Device.Fields, JSON.Object.Member)] = [
      (.pushKeyID, .init("push_key_id", .optional(pushKeyID.map(Int64.init)))),
      (.tokenID, .init("push_token_id", .optional(tokenID?.base64))),
      (.pendingTokenID, .init("pending_push_token_id", .optional(pendingTokenID?.base64))),
      (.tokenUpdatedAt, .init("push_token_last_updated_timestamp", .optional(time))),
      (.error, .init("push_registration_error_code", .optional(error?.rawValue))),
    ]
    return all.filter { field, _ in fields?.contains(field) ?? true }.map(\.1)
  }
}
