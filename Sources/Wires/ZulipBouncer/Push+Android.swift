internal import NIOCore
internal import Providers
internal import Sealing

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
