package import HTTP
import HTTPTypes
import Providers
package import Registrations
import Sealing
package import ZulipBouncer

/// Sends notifications to all devices of a user in one request to the bouncer. For devices with end-to-end
/// encryption, each is encrypted with that device's key.
package struct Notifier: Sendable {
  let devices: Devices
  let bouncer: BouncerLink?
  private let removal: ProviderShape

  /// - Parameters:
  ///   - bouncer: nil if there is none; nothing is sent then.
  ///   - removal: how encrypted removals are sent.
  package init(devices: Devices, bouncer: BouncerLink?, removal: ProviderShape = .removal) {
    self.devices = devices
    self.bouncer = bouncer
    self.removal = removal
  }

  /// Result of a notification.
  package struct Result: Sendable, Hashable {
    /// Number of devices that it was sent to.
    var devices = 0
    /// Number of these that APNs had accepted when the bouncer answered; for old apps, the number of iPhones that it is sent
    /// to.
    var apple = 0
    /// Number for FCM, counted like ``apple``.
    var android = 0
    /// Number of devices whose token the bouncer does not know, or no longer.
    var gone = 0

    /// The result as the backend API reports it.
    package var json: JSON {
      [
        "devices": .integer(Int64(devices)), "apple_successfully_sent_count": .integer(Int64(apple)),
        "android_successfully_sent_count": .integer(Int64(android)), "deleted_devices": .integer(Int64(gone)),
      ]
    }

    /// The result for old apps, as the backend API reports it.
    package var legacyJSON: JSON {
      [
        "devices": .integer(Int64(devices)), "total_apple_devices": .integer(Int64(apple)),
        "total_android_devices": .integer(Int64(android)), "deleted_devices": .integer(Int64(gone)),
      ]
    }
  }

  /// The result of each part that was to be sent, or its error: an `APIError`, or the database's error. A failed
  /// part is not promised.
  package struct Results: Sendable {
    package internal(set) var encrypted: Swift.Result<Result, any Error>?
    package internal(set) var legacy: Swift.Result<Result, any Error>?
  }

  /// Sends to all devices of a user: to old apps first (`Documentation/Protocols/Zulip.md` 10.6), and to each
  /// device once, even one in transition from legacy to encrypted. If the realm requires end-to-end
  /// encryption, old apps stay registered but get nothing.
  ///
  /// - Parameter payload: the plaintext for phones (6.6); missing `realm_url`, `realm_name` and `user_id` are
  ///   filled in.
  package func notify(
    _ user: User, _ payload: JSON.Object?, legacy: LegacyNotification? = nil
  ) async throws -> Results {
    var results = Results()
    var recipients: [Device] = []
    if let legacy, !user.realm.requiresE2EE {
      let (tokens, active) = try await devices.legacyTokens.recipients(user.id, devices: devices)
      recipients = active
      do {
        let (result, missing) = try await send(legacy, to: tokens.map(\.token), of: user)
        results.legacy = .success(result)
        // The bouncer left these out because their devices have switched to encryption meanwhile.
        if payload != nil, !missing.isEmpty {
          recipients += try await successors(
            of: tokens.filter { missing.contains($0.token) }, user, except: active)
        }
      } catch {
        results.legacy = .failure((error as? BouncerError).map { APIError(legacy: $0) } ?? error)
      }
    } else {
      if legacy != nil { results.legacy = .success(Result()) }
      if payload != nil { recipients = try await devices.active(user: user.id) }
    }
    guard let payload else { return results }
    do {
      results.encrypted = .success(try await send(payload, to: recipients, of: user))
    } catch {
      results.encrypted = .failure((error as? BouncerError).map { APIError($0) } ?? error)
    }
    return results
  }

  /// Sends to these devices of a user; throws the bouncer's errors unchanged.
  func send(_ payload: JSON.Object, to devices: [Device], of user: User) async throws -> Result {
    guard let bouncer else { throw APIError.pushServiceNotConfigured }
    var payload = payload
    let defaults: [(String, JSON)] = [
      ("realm_url", .string(user.realm.url)), ("realm_name", .string(user.realm.name)),
      ("user_id", .integer(user.userID)),
    ]
    for (name, value) in defaults where payload[name] == nil { payload[name] = value }
    let notification = try PlainNotification(payload, removal: removal)
    let items = devices.compactMap(notification.sealed)
    guard !items.isEmpty else { return Result() }
    let receipt = try await bouncer.providingRealms {
      try await bouncer.calls.notify(NotifyRequest(items), realm: user.realm.uuid)
    }
    try await self.devices.removeTokens(receipt.gone, user: user.id)
    return Result(
      devices: items.count, apple: receipt.apple, android: receipt.android, gone: receipt.gone.count)
  }

  /// Sends to these tokens of a user; also returns those that the bouncer does not have.
  private func send(
    _ notification: LegacyNotification, to tokens: [PushToken], of user: User
  ) async throws -> (result: Result, missing: Set<PushToken>) {
    // Without recipients the bouncer is not called (`Documentation/Protocols/Zulip.md` 10.6).
    guard !tokens.isEmpty else { return (Result(), []) }
    guard let bouncer else { throw APIError.pushServiceNotConfigured }
    var notification = notification
    if !tokens.contains(where: { $0.kind == .apns }) { notification.apns = [:] }
    if !tokens.contains(where: { $0.kind == .fcm }) { notification.fcm = [:] }
    let receipt = try await bouncer.providingRealms { [notification] in
      try await bouncer.calls.notifyLegacy(user, notification, tokens: tokens)
    }
    let missing = Set(
      receipt.missing.flatMap { kind, texts in texts.compactMap { try? PushToken($0, kind: kind) } })
    try await devices.legacyTokens.forget(Array(missing), user: user.id)
    return (
      Result(devices: tokens.count, apple: receipt.apple, android: receipt.android, gone: missing.count),
      missing
    )
  }

  /// The devices that have replaced old apps with these tokens, without the known ones. The bouncer has their
  /// registrations already, even if its answer has not arrived yet.
  private func successors(
    of tokens: [LegacyToken], _ user: User, except known: [Device]
  ) async throws -> [Device] {
    let known = Set(known.map(\.id))
    return try await devices.snapshot(user: user.id).devices.compactMap { device in
      guard !known.contains(device.id) else { return nil }
      let id = device.tokens.first { id in tokens.contains { $0.isMeant(by: id) } }
      return id.map(device.reached)
    }
  }
}

extension LegacyNotification {
  /// Reads `{"apns_payload", "gcm_payload", "gcm_options"}` from the host application; each member is
  /// optional.
  package init(backend field: Field) throws(APIError) {
    try field.forbidMembers(except: ["apns_payload", "gcm_payload", "gcm_options"])
    try self.init(field) { member throws(APIError) in try member.present?.members() ?? [:] }
    guard !apns.members.isEmpty || !fcm.members.isEmpty else {
      throw field.error("must have apns_payload or gcm_payload")
    }
    try checkForProviders(field)
  }
}
