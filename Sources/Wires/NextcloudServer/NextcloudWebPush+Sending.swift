import Delivery
import HTTP
import NIOCore
import Providers
import Registrations

extension NextcloudWebPush {
  /// Sends a subscription its activation token.
  ///
  /// - Throws: what ``Delivery/Deliverer`` throws if it could be neither sent nor stored.
  func send(activationToken token: String, to subscription: NextcloudSubscription) async throws {
    _ = try await deliverer.deliver([
      subscription.delivery(of: JSON.object(["activationToken": .string(token)]).php())
    ])
  }

  /// Sends a message to those subscriptions of a user that it is for, and withdraws waiting messages that it
  /// makes obsolete.
  ///
  /// - Parameters:
  ///   - apps: the apps of deleted notifications, as far as they are known.
  ///   - appPassword: the app password of the app that gets no message.
  /// - Throws: what ``Delivery/Deliverer`` throws if something could be neither sent nor stored.
  func send(
    _ message: NextcloudMessage, apps: [Int64: String], to subscriptions: [NextcloudSubscription],
    except appPassword: Int64?
  ) async throws -> NextcloudReceipt {
    var receipt = NextcloudReceipt()
    try await withdraw(message, from: subscriptions)
    var pushes: [SubscriptionPush] = []
    for subscription in subscriptions
    where appPassword == nil || subscription.holder.appPassword != appPassword {
      let new = SubscriptionPush.pushes(of: message, apps: apps, to: subscription)
      if !new.isEmpty { receipt.devices += 1 }
      pushes += new
    }
    guard !pushes.isEmpty else { return receipt }
    var results = try await deliverer.deliver(pushes.map(\.delivery))
    // Some push services accept less than the standard requires.
    let long = pushes.indices.filter {
      results[$0] == .refused(.payloadTooLarge) && pushes[$0].shorter != nil
    }
    if !long.isEmpty {
      let shorter = try await deliverer.deliver(long.map { pushes[$0].shorter ?? pushes[$0].delivery })
      for (index, result) in zip(long, shorter) { results[index] = result }
    }
    var ended: Set<Int64> = []
    for (push, result) in zip(pushes, results) {
      let isFirst = ended.insert(push.subscription.reference.id).inserted
      receipt.update(push.subscription.target.endpoint.origin) { $0.count(result, isFirst: isFirst) }
    }
    return receipt
  }

  /// Withdraws what a deletion makes obsolete before the deletion is sent, so that it does not arrive
  /// afterwards.
  private func withdraw(
    _ message: NextcloudMessage, from subscriptions: [NextcloudSubscription]
  ) async throws {
    if message.isNotification { return }
    try await deliverer.withdraw(
      message.deleted.map { $0.map(SubscriptionPush.collapseID) }, from: subscriptions.map(\.reference))
  }
}

/// A push to one subscription, ready to be sent.
struct SubscriptionPush: Sendable {
  let subscription: NextcloudSubscription
  let delivery: RegisteredPush
  /// The push that is sent instead if the push service finds this one too long. It is as short as for proxies.
  var shorter: RegisteredPush?

  /// The pushes of a message for a subscription: of apps that it is for, or that are unknown. A deletion of
  /// all goes to every subscription.
  static func pushes(
    of message: NextcloudMessage, apps: [Int64: String], to subscription: NextcloudSubscription
  ) -> [SubscriptionPush] {
    switch message {
    case .notification(let notification):
      guard subscription.appTypes.contain(notification.app) else { return [] }
      let urgency = PushUrgency.notification(app: notification.app, type: notification.type)
      func delivery(_ plaintext: [UInt8]) -> RegisteredPush {
        subscription.delivery(
          of: plaintext, urgency: urgency.priority == "high" ? .high : .normal,
          collapseID: collapseID(of: notification.nid), isBackground: false)
      }
      let short = PushPlaintext.notification(notification, limit: .max)
      let whole = subscription.wantsShort ? short : PushPlaintext.webPush(notification)
      return [
        SubscriptionPush(
          subscription: subscription, delivery: delivery(whole),
          shorter: short.count < whole.count ? delivery(short) : nil)
      ]
    case .deletion(let nids, let app):
      let concerned = nids.filter { nid in
        (app ?? apps[nid]).map(subscription.appTypes.contain) ?? true
      }
      return PushPlaintext.chunks(of: concerned, together: true).map { chunk in
        // A single deletion replaces its notification if that still waits at the push service.
        let id = chunk.count == 1 ? chunk.first.map(collapseID) : nil
        return SubscriptionPush(
          subscription: subscription,
          delivery: subscription.delivery(of: PushPlaintext.deletion(chunk), collapseID: id))
      }
    case .deletionOfAll:
      return [
        SubscriptionPush(
          subscription: subscription, delivery: subscription.delivery(of: PushPlaintext.deletionOfAll))
      ]
    }
  }

  /// The collapse id of a notification.
  static func collapseID(of nid: Int64) -> String { "nid \(nid)" }
}

extension NextcloudSubscription {
  fileprivate func delivery(
    of plaintext: [UInt8], urgency: WebPushMessage.Urgency = .normal, collapseID: String? = nil,
    isBackground: Bool = true
  ) -> RegisteredPush {
    RegisteredPush(
      push: .webPush(
        WebPushMessage(
          subscription: target, body: ByteBuffer(bytes: plaintext), urgency: urgency, collapseID: collapseID)),
      registration: reference, owner: owner, isBackground: isBackground)
  }
}
