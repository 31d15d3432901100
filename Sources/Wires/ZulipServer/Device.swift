import Foundation
import HTTP
import Providers
import Sealing

/// A client of a user that wants notifications (`Documentation/Protocols/Zulip.md` 10.2 to 10.5). It is a
/// pure state machine: each input changes the state and returns the changed ``Fields``, of which the user's
/// clients must be notified.
struct Device: Sendable {
  /// The state of a device as a user's clients see it.
  struct State: Sendable, Hashable {
    /// Id of the key that notifications are encrypted with.
    var pushKeyID: UInt32?
    /// Id of the token that gets notifications.
    var tokenID: TokenID?
    /// Id of the token that the bouncer has yet to accept, or has refused.
    var pendingTokenID: TokenID?
    /// When the client last sent a token, in whole seconds.
    var tokenUpdatedAt: Date?
    var error: RegistrationError?
  }

  /// A set of parts of a state.
  struct Fields: OptionSet, Sendable, Hashable {
    let rawValue: Int64

    static let pushKeyID = Fields(rawValue: 1)
    static let tokenID = Fields(rawValue: 2)
    static let pendingTokenID = Fields(rawValue: 4)
    static let tokenUpdatedAt = Fields(rawValue: 8)
    static let error = Fields(rawValue: 16)
  }

  /// The reasons why a bouncer will never accept a registration, with their names for clients.
  enum RegistrationError: String, Sendable, Hashable {
    /// The registration was sealed to a key that the bouncer does not have.
    case invalidBouncerPublicKey = "INVALID_BOUNCER_PUBLIC_KEY"
    /// The registration did not reach the bouncer within a day.
    case requestExpired = "REQUEST_EXPIRED"
    /// Any other final refusal.
    case badRequest = "BAD_REQUEST"
  }

  /// Row id, which is never reused.
  let id: Int64
  /// Row id of its user.
  let user: Int64
  var state: State
  /// The key that notifications are encrypted with; nil if there is none yet, or it does not open.
  var pushKey: PushKey?
  var kind: PushToken.Kind?

  /// The device with this token in use, which may still be pending.
  func reached(by token: TokenID) -> Device {
    var device = self
    device.state.tokenID = token
    return device
  }

  /// A token that is older than this is registered again when its client sends it (`Documentation/Decisions`
  /// 0010).
  static let refreshAge: TimeInterval = 30 * 86_400
}

/// A client's request for its device (`POST mobile_push/register`): a key, a token, or both.
struct DeviceRegistration: Sendable {
  /// The key to encrypt notifications with.
  struct Key: Sendable {
    var id: UInt32
    /// The key; nil if it is malformed.
    var key: PushKey?
  }

  /// The token to send to, which only the bouncer can read.
  struct Token: Sendable {
    var kind: PushToken.Kind
    /// The token's id; nil if it is malformed.
    var id: TokenID?
    /// The bouncer's public key, in the client's spelling.
    var bouncerPublicKey: String
    /// The registration sealed to that key, in base64.
    var sealed: String
  }

  /// The new key; nil keeps the present one.
  var key: Key?
  /// The new token; nil keeps the present one.
  var token: Token?
}

/// The reasons why a client's request is refused, with Zulip's texts.
enum DeviceError: String, Error {
  case unknownDevice = "Invalid `device_id`"
  case nothingToDo = "Missing parameters: must provide either all push key fields, all token fields, or both."
  case noKeyToRotate = "No push registration exists to rotate key for."
  case noKeyForToken = "No push registration exists to rotate token for."
  case invalidPushKey = "Invalid `push_key`"
  case invalidTokenID = "`token_id` is not Base64 encoded"
  /// The bouncer has not answered about another token yet.
  case inProgress = "A registration for the device already in progress."
  /// See ``Devices/maximumPerUser``.
  case tooMany = "Too many devices (limit: 500): remove one first."
}

extension Device {
  /// Applies a client's request, with the checks of `Documentation/Protocols/Zulip.md` 10.4 in order.
  ///
  /// - Returns: what has changed. If ``Fields/pendingTokenID`` is included, the token must be sent to the
  ///   bouncer.
  mutating func register(_ registration: DeviceRegistration, now: Date) throws(DeviceError) -> Fields {
    if let token = registration.token { return try setToken(token, registration.key, now: now) }
    guard let key = registration.key else { throw .nothingToDo }
    guard state.pushKeyID != nil else { throw .noKeyToRotate }
    return try setKey(key)
  }

  private mutating func setToken(
    _ token: DeviceRegistration.Token, _ key: DeviceRegistration.Key?, now: Date
  ) throws(DeviceError) -> Fields {
    guard state.pendingTokenID == nil || state.error != nil else { throw .inProgress }
    guard let tokenID = token.id else { throw .invalidTokenID }
    var changed: Fields = []
    var isKnown = state.error == nil && state.tokenID == tokenID && isFresh(now)
    if let key {
      let kindThen = kind
      changed = try setKey(key)
      kind = token.kind
      isKnown = isKnown && changed.isEmpty && kindThen == token.kind
    } else if state.pushKeyID == nil {
      throw .noKeyForToken
    }
    guard !isKnown else { return [] }
    state.pendingTokenID = tokenID
    state.tokenUpdatedAt = Date(timeIntervalSince1970: now.timeIntervalSince1970.rounded(.down))
    state.error = nil
    // As Zulip's server does, this includes the key's id whenever a key was sent.
    return changed.union([.pendingTokenID, .tokenUpdatedAt, .error]).union(key == nil ? [] : .pushKeyID)
  }

  private mutating func setKey(_ new: DeviceRegistration.Key) throws(DeviceError) -> Fields {
    guard let key = new.key else { throw .invalidPushKey }
    if state.pushKeyID == new.id, let pushKey, pushKey == key { return [] }
    state.pushKeyID = new.id
    pushKey = key
    return .pushKeyID
  }

  private func isFresh(_ now: Date) -> Bool {
    state.tokenUpdatedAt.map { now.timeIntervalSince($0) < Self.refreshAge } ?? false
  }

  /// The bouncer has accepted a token. Ignored if another token is pending meanwhile.
  mutating func accepted(_ tokenID: TokenID) -> Fields {
    guard state.pendingTokenID == tokenID, state.error == nil else { return [] }
    state.tokenID = tokenID
    state.pendingTokenID = nil
    return [.tokenID, .pendingTokenID]
  }

  /// The bouncer will never accept a token. It stays pending, so that the client knows which one was refused.
  mutating func refused(_ tokenID: TokenID, _ error: RegistrationError) -> Fields {
    guard state.pendingTokenID == tokenID, state.error == nil else { return [] }
    state.error = error
    return .error
  }

  /// The bouncer no longer knows a token.
  mutating func lost(_ tokenID: TokenID) -> Fields {
    guard state.tokenID == tokenID else { return [] }
    state.tokenID = nil
    return .tokenID
  }
}

extension Device.State {
  /// The JSON members for clients (`Documentation/Protocols/Zulip.md` 10.2).
  ///
  /// - Parameter fields: the parts to include; nil for all.
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
