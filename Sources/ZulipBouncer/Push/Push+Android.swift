import NIOCore
import Providers
import Sealing

extension Push {
  /// What goes to a device that counts as an Android one: over FCM, or over Web Push where its token is a subscription.
  ///
  /// - Parameters:
  ///   - data: what FCM hands to the app.
  ///   - body: what a push service hands to it, which is the same as JSON.
  init(
    toAndroid token: PushToken, data: @autoclosure () -> [String: String],
    body: @autoclosure () -> ByteBuffer,
    priority: FCMMessage.Priority
  ) throws(ItemFault) {
    guard WebPushSubscription.isToken(token.text) else {
      self = .fcm(FCMMessage(token: token.text, data: data(), priority: priority))
      return
    }
    guard let subscription = try? WebPushSubscription(token: token.text) else { throw .unreadable }
    let body = body()
    guard body.readableBytes <= WebPushMessage.maximumBody else { throw .tooLarge }
    self = .webPush(
      WebPushMessage(subscription: subscription, body: body, urgency: priority == .high ? .high : .normal))
  }
}
