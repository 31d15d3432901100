package import HTTP
internal import HTTPTypes
package import Registrations

/// Sends notifications to all devices of a user, each sealed with that device's key, in one request to
/// the bouncer.
package struct Notifier: Sendable {
  let devices: Devices
  let bouncer: (client: any Bouncer, realms: RealmUpload)?
  private let removal: ProviderShape

  /// - Parameters:
  ///   - bouncer: nil if there is none, and nobody gets any.
  ///   - removal: the shape of encrypted notifications that take others away.
  package init(
    devices: Devices, bouncer: (client: any Bouncer, realms: RealmUpload)?, removal: ProviderShape = .removal
  ) {
    self.devices = devices
    self.bouncer = bouncer
    self.removal = removal
  }

  /// What became of a notification.
  package struct Result: Sendable, Hashable {
    /// Devices it was sent to.
    package var devices = 0
    /// Of these, how many APNs had accepted when the bouncer answered.
    package var apple = 0
    /// How many FCM had.
    package var android = 0
    /// Devices whose token the bouncer does not know, or no longer; they wait for a new one.
    package var gone = 0

    /// As the backend API tells it.
    package var json: JSON {
      [
        "devices": .integer(Int64(devices)), "apple_successfully_sent_count": .integer(Int64(apple)),
        "android_successfully_sent_count": .integer(Int64(android)), "deleted_devices": .integer(Int64(gone)),
      ]
    }
  }

  /// What a notification is to say: to devices that read it end-to-end encrypted, to old apps, or to both.
  package struct Message: Sendable {
    /// What phones read once they have opened it (`Documentation/Protocols/Zulip.md` 6.6); `realm_url`,
    /// `realm_name` and `user_id` are filled in where they are missing.
    package var encrypted: JSON.Object?
    /// What old apps are sent.
    package var legacy: LegacyMessage?

    /// A message by its parts.
    package init(encrypted: JSON.Object?, legacy: LegacyMessage?) {
      self.encrypted = encrypted
      self.legacy = legacy
    }
  }

  /// What became of each part that there was, or why it could not be sent: an `APIError`, or the
  /// database's error. Of a part that failed nothing is promised.
  package struct Outcome: Sendable {
    /// Of the encrypted part.
    package var encrypted: Swift.Result<Result, any Error>?
    /// Of the part for old apps.
    package var legacy: Swift.Result<LegacyResult, any Error>?
  }

  /// Sends to all devices of a user: to old apps first (`Documentation/Protocols/Zulip.md` 10.6), and to each
  /// device once, also to one that is changing from the one to the other at this moment. Where the realm
  /// wants end-to-end encryption, old apps get nothing at all, and stay registered.
  package func notify(_ user: User, _ message: Message) async throws -> Outcome {
    guard let legacy = message.legacy, !user.realm.requiresE2EE else {
      var outcome = Outcome(legacy: message.legacy.map { _ in .success(LegacyResult()) })
      if let payload = message.encrypted {
        let found = try await devices.active(user: user.id)
        outcome.encrypted = await result { try await send(payload, to: found, of: user) }
      }
      return outcome
    }
    var (tokens, found) = try await devices.legacyTokens.recipients(user.id, devices: devices)
    var outcome = Outcome()
    do {
      let (result, missing) = try await send(legacy, to: tokens.map(\.token), of: user)
      outcome.legacy = .success(result)
      // The bouncer left them out because their devices have moved on since we looked.
      if message.encrypted != nil, !missing.isEmpty {
        found += try await successors(of: tokens.filter { missing.contains($0.token) }, user, except: found)
      }
    } catch {
      outcome.legacy = .failure((error as? BouncerError).map { APIError(legacy: $0) } ?? error)
    }
    if let payload = message.encrypted {
      let devices = found
      outcome.encrypted = await result { try await send(payload, to: devices, of: user) }
    }
    return outcome
  }

  private func result<Success>(
    _ body: () async throws -> Success
  ) async -> Swift.Result<Success, any Error> {
    do {
      return .success(try await body())
    } catch {
      return .failure((error as? BouncerError).map { APIError($0) } ?? error)
    }
  }

  /// Sends to these devices of a user; the bouncer's refusals as they are.
  func send(_ payload: JSON.Object, to devices: [Device], of user: User) async throws -> Result {
    guard let bouncer else { throw APIError.pushServiceNotConfigured }
    let notification: PlainNotification
    do {
      notification = try PlainNotification(Self.complete(payload, for: user), removal: removal)
    } catch {
      throw APIError.tooLarge(error)
    }
    let notifications = devices.compactMap(notification.sealed)
    guard !notifications.isEmpty else { return Result() }
    let receipt = try await bouncer.realms.providing {
      try await bouncer.client.notify(realm: user.realm.uuid, notifications)
    }
    try await self.devices.lose(receipt.gone, user: user.id)
    return Result(
      devices: notifications.count, apple: receipt.apple, android: receipt.android, gone: receipt.gone.count)
  }

  private static func complete(_ payload: JSON.Object, for user: User) -> JSON.Object {
    var payload = payload
    let defaults: [(String, JSON)] = [
      ("realm_url", .string(user.realm.url)), ("realm_name", .string(user.realm.name)),
      ("user_id", .integer(user.userID)),
    ]
    for (name, value) in defaults where payload[name] == nil { payload[name] = value }
    return payload
  }
}
