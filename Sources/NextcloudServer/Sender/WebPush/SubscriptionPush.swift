internal import Delivery
internal import HTTP
internal import NIOCore
internal import Providers

/// A push to one subscription, made.
struct SubscriptionPush: Sendable {
  let subscription: NextcloudSubscription
  /// On its way.
  let delivery: RegisteredPush
  /// What goes in its place where it is too long for the push service: as much as proxies get.
  var shorter: RegisteredPush?

  /// The pushes that a message comes to for a subscription: of apps that it is for, or that nobody remembers. That all
  /// are gone concerns everyone.
  static func pushes(
    of message: NextcloudMessage, apps: [Int64: String], to subscription: NextcloudSubscription
  ) -> [SubscriptionPush] {
    switch message {
    case .notification(let notification):
      guard subscription.appTypes.contain(notification.app) else { return [] }
      return [SubscriptionPush(notification, to: subscription)]
    case .deletion(let nids, let app):
      let concerned = nids.filter { nid in
        (app ?? apps[nid]).map(subscription.appTypes.contain) ?? true
      }
      return PushPlaintext.chunks(of: concerned, together: true).map { chunk in
        SubscriptionPush(
          PushPlaintext.deletion(chunk), to: subscription,
          // It takes the place of what it takes back, where that still waits at the push service.
          collapseID: chunk.count == 1 ? chunk.first.map(collapseID) : nil)
      }
    case .deletionOfAll:
      return [SubscriptionPush(PushPlaintext.deletionOfAll, to: subscription)]
    }
  }

  /// What a notification is known by on its way.
  static func collapseID(of nid: Int64) -> String { "nid \(nid)" }

  private init(_ notification: NextcloudNotification, to subscription: NextcloudSubscription) {
    let urgency = PushUrgency.notification(app: notification.app, type: notification.type)
    func delivery(_ plaintext: [UInt8]) -> RegisteredPush {
      Self.delivery(
        plaintext, to: subscription, urgency: urgency.priority == "high" ? .high : .normal,
        collapseID: Self.collapseID(of: notification.nid))
    }
    let short = PushPlaintext.notification(notification, limit: .max)
    let whole = subscription.wantsShort ? short : PushPlaintext.webPush(notification)
    self.subscription = subscription
    self.delivery = delivery(whole)
    shorter = short.count < whole.count ? delivery(short) : nil
  }

  private init(
    _ plaintext: [UInt8], to subscription: NextcloudSubscription, collapseID: String? = nil
  ) {
    self.subscription = subscription
    delivery = Self.delivery(plaintext, to: subscription, urgency: .normal, collapseID: collapseID)
  }

  private static func delivery(
    _ plaintext: [UInt8], to subscription: NextcloudSubscription, urgency: WebPushMessage.Urgency,
    collapseID: String?
  ) -> RegisteredPush {
    RegisteredPush(
      push: .webPush(
        WebPushMessage(
          subscription: subscription.target, body: ByteBuffer(bytes: plaintext), urgency: urgency,
          collapseID: collapseID)),
      registration: subscription.reference, owner: subscription.owner)
  }
}
