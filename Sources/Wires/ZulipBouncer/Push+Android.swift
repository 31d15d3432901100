import NIOCore
import Providers
import Sealing

extension Push {
  /// A push for an Android device: by FCM, or by Web Push if the token is a subscription.
  ///
  /// - Parameters:
  ///   - data: the data of an FCM message.
  ///   - body: the same as JSON, for Web Push.
  init(
    toAndroid token: PushToken, data: @autoclosure () -> [String: String],
    body: @autoclosure () -> ByteBuffer, priority: FCMMessage.Priority
  ) throws(ItemFault) {
    switch token {
    case .apns(let text), .fcm(let text):
      self = .fcm(FCMMessage(token: text, data: data(), priority: priority))
    case .webPush(let text):
      guard let subscription = try? WebPushSubscription(token: text) else { throw .unreadable }
      let body = body()
      guard body.readableBytes <= WebPushMessage.maximumBody else { throw .tooLarge }
      let urgency: WebPushMessage.Urgency = priority == .high ? .high : .normal
      self = .webPush(WebPushMessage(subscription: subscription, body: body, urgency: urgency))
    }
  }
}
