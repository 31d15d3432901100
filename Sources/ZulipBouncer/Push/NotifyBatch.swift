internal import Delivery
internal import HTTP
internal import Logging
internal import Providers
internal import Registrations
package import Sealing

/// What became of the notifications of a request.
package struct NotifyReceipt: Sendable {
  /// How many APNs took.
  package let apple: Int
  /// How many FCM and push services took.
  package let android: Int
  /// Ids that the server should forget: the unknown first, then those that APNs and those that FCM or a
  /// push service has declared dead.
  package let gone: [TokenID]

  /// As chat servers are told.
  var members: [JSON.Object.Member] {
    [
      .init("apple_successfully_sent_count", .integer(Int64(apple))),
      .init("android_successfully_sent_count", .integer(Int64(android))),
      .init("delete_token_ids", .array(gone.map { .string($0.base64) })),
    ]
  }
}

/// The items of a request matched with the registrations they are for.
struct NotifyBatch {
  private(set) var deliveries: [RegisteredPush] = []
  /// What each delivery was for, in the same order.
  private var targets: [(tokenID: TokenID, kind: PushToken.Kind)] = []
  /// Ids that no live registration of that kind has, each once.
  private var unknown: [TokenID] = []

  /// - Parameters:
  ///   - unreadable: ids of registrations of which nobody can tell what they are. They are not sent to, and are none
  ///     that the server should forget.
  ///   - owner: the chat server.
  init(
    _ notification: NotifyRequest, registrations: [E2EERegistration], unreadable: Set<TokenID> = [],
    of owner: Owner, logger: Logger
  ) {
    let byID = Dictionary(registrations.map { ($0.tokenID, $0) }, uniquingKeysWith: { first, _ in first })
    var seen: Set<TokenID> = []
    var faults = notification.faults
    defer { faults.report(to: logger) }
    for item in notification.items {
      guard !unreadable.contains(item.tokenID) else {
        faults.add(.unreadable)
        continue
      }
      guard let registration = byID[item.tokenID], registration.token.kind == item.kind else {
        if seen.insert(item.tokenID).inserted { unknown.append(item.tokenID) }
        continue
      }
      do throws(ItemFault) {
        guard let push = try Push(item, for: registration) else {
          logger.error("registration without app id", metadata: ["registration": "\(registration.id)"])
          continue
        }
        deliveries.append(RegisteredPush(push: push, registration: registration.reference, owner: owner))
        targets.append((item.tokenID, item.kind))
      } catch {
        faults.add(error)
      }
    }
  }

  /// What the results of the deliveries come to.
  func receipt(_ results: [DeliveryResult]) -> NotifyReceipt {
    func delivered(_ kind: PushToken.Kind) -> Int {
      zip(targets, results).count { $0.kind == kind && $1 == .delivered }
    }
    func ended(_ kind: PushToken.Kind) -> [TokenID] {
      zip(targets, results).compactMap { target, result in
        guard target.kind == kind, case .ended = result else { return nil }
        return target.tokenID
      }
    }
    var seen: Set<TokenID> = []
    return NotifyReceipt(
      apple: delivered(.apns), android: delivered(.fcm),
      gone: (unknown + ended(.apns) + ended(.fcm)).filter { seen.insert($0).inserted })
  }
}

extension Push {
  /// The push of an item; nil for an APNs registration that names no app.
  fileprivate init?(_ item: NotifyRequest.Item, for registration: E2EERegistration) throws(ItemFault) {
    switch item.content {
    case .apns(let content):
      guard let topic = registration.iosAppID else { return nil }
      self = .apns(
        APNsNotification(
          token: registration.token.text, topic: topic, payload: content.payload, pushType: content.pushType,
          priority: content.priority))
    case .fcm(let content):
      try self.init(
        toAndroid: registration.token, data: content.data, body: content.body, priority: content.priority)
    }
  }
}
