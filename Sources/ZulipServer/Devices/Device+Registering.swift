internal import Foundation
internal import Sealing

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

  /// The bouncer no longer knows a token.
  mutating func lost(_ tokenID: TokenID) -> Fields {
    guard state.tokenID == tokenID else { return [] }
    state.tokenID = nil
    return .tokenID
  }
}
