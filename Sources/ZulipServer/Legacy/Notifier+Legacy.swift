package import HTTP
internal import Registrations
internal import Sealing

extension Notifier {
  /// What became of a notification to old apps.
  package struct LegacyResult: Sendable, Hashable {
    /// Tokens it was for.
    package var devices = 0
    /// Registrations with APNs that the bouncer has sent to.
    package var apple = 0
    /// Registrations with FCM that it has sent to.
    package var android = 0
    /// Tokens that the bouncer does not have, or no longer; they are forgotten.
    package var gone = 0

    /// As the backend API tells it.
    package var json: JSON {
      [
        "devices": .integer(Int64(devices)), "total_apple_devices": .integer(Int64(apple)),
        "total_android_devices": .integer(Int64(android)), "deleted_devices": .integer(Int64(gone)),
      ]
    }
  }

  /// Sends to these tokens of a user, and returns which of them the bouncer does not have.
  func send(
    _ message: LegacyMessage, to tokens: [PushToken], of user: User
  ) async throws -> (result: LegacyResult, missing: Set<PushToken>) {
    // Nobody is there: the bouncer need not be asked (`Documentation/Protocols/Zulip.md` 10.6).
    guard !tokens.isEmpty else { return (LegacyResult(), []) }
    guard let bouncer else { throw APIError.pushServiceNotConfigured }
    let receipt = try await bouncer.realms.providing {
      try await bouncer.client.notifyLegacy(user, message.reduced(to: tokens), tokens: tokens)
    }
    try await devices.legacyTokens.forget(Array(receipt.missing), user: user.id)
    let result = LegacyResult(
      devices: tokens.count, apple: receipt.apple, android: receipt.android, gone: receipt.missing.count)
    return (result, receipt.missing)
  }

  /// The devices that have replaced old apps with these tokens, without the known ones. The bouncer has their
  /// registrations already, even if this side has not been told yet.
  func successors(of tokens: [LegacyToken], _ user: User, except known: [Device]) async throws -> [Device] {
    let known = Set(known.map(\.id))
    return try await devices.snapshot(user: user.id).devices.compactMap { device in
      guard !known.contains(device.id) else { return nil }
      let id = [device.state.tokenID, device.state.pendingTokenID].compactMap(\.self).first { id in
        tokens.contains { $0.isMeant(by: id) }
      }
      return id.map(device.reached)
    }
  }
}
