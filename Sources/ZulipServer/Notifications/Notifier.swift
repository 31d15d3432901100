internal import HTTPTypes
public import Registrations
public import Wire

/// Sends notifications to all devices of a user, each sealed with that device's key, in one request to
/// the bouncer.
public struct Notifier: Sendable {
  private let devices: Devices
  private let bouncer: BouncerClient?
  private let realms: RealmUpload?

  /// - Parameter bouncer: nil if there is none, and nobody gets any.
  public init(devices: Devices, bouncer: BouncerClient?, realms: RealmUpload?) {
    self.devices = devices
    self.bouncer = bouncer
    self.realms = realms
  }

  /// What became of a notification.
  public struct Result: Sendable, Hashable {
    /// Devices it was sent to.
    public var devices = 0
    /// Of these, how many APNs had accepted when the bouncer answered.
    public var apple = 0
    /// How many FCM had.
    public var android = 0
    /// Devices whose token the bouncer does not know, or no longer; they wait for a new one.
    public var gone = 0

    /// As the backend API tells it.
    public var json: JSON {
      [
        "devices": .integer(Int64(devices)), "apple_successfully_sent_count": .integer(Int64(apple)),
        "android_successfully_sent_count": .integer(Int64(android)), "deleted_devices": .integer(Int64(gone)),
      ]
    }
  }

  /// Sends to all devices of a user.
  ///
  /// - Parameter payload: what the phones read (`spec/zulip.md` E.8); `realm_url`, `realm_name` and
  ///   `user_id` are filled in where they are missing.
  /// - Throws: ``Wire/APIError``: too large, or nothing can be sent now and nothing is promised.
  public func notify(_ user: User, _ payload: JSON.Object) async throws -> Result {
    let found = try await devices.active(user: user.id)
    do {
      return try await send(payload, to: found, of: user)
    } catch let error as BouncerError {
      throw APIError(error)
    }
  }

  /// Sends to these devices of a user; the bouncer's refusals as they are.
  func send(_ payload: JSON.Object, to devices: [Device], of user: User) async throws -> Result {
    guard let bouncer else { throw APIError.pushServiceNotConfigured }
    let notification: PlainNotification
    do {
      notification = try PlainNotification(Self.complete(payload, for: user))
    } catch {
      throw APIError(
        "the notification is too large (\(error.bytes) bytes, limit: \(PlainNotification.maximumBytes))")
    }
    let requests = devices.compactMap(notification.request)
    guard !requests.isEmpty else { return Result() }
    let receipt: BouncerClient.Receipt
    do {
      receipt = try await bouncer.notify(realm: user.realm.uuid, requests)
    } catch let error as BouncerError where error.isMissingRealm {
      try await realms?.upload()
      receipt = try await bouncer.notify(realm: user.realm.uuid, requests)
    }
    try await self.devices.lose(receipt.gone, user: user.id)
    return Result(
      devices: requests.count, apple: receipt.apple, android: receipt.android, gone: receipt.gone.count)
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

extension APIError {
  /// What a client is told of a bouncer that does not do what it should (`spec/zulip.md` C.5).
  init(_ error: BouncerError) {
    switch error {
    case .unreachable:
      self.init(
        .badGateway, code: "FAILED_TO_CONNECT_BOUNCER",
        "Network error while connecting to Zulip push notification service.")
    case .failed:
      self.init(
        .badGateway, code: "INTERNAL_SERVER_ERROR_ON_BOUNCER",
        "Internal server error on Zulip push notification service, retry later.")
    case .refused:
      self.init(
        .forbidden, code: "ADMIN_ACTION_REQUIRED",
        "Push notification configuration issue on server, contact the server administrator or retry later.")
    }
  }
}
