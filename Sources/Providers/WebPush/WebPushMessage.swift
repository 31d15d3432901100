package import NIOCore

/// A request to a push service: `POST` to a subscription's endpoint (RFC 8030). What is sent is encrypted anew for each
/// try, so that none can be told from another.
package struct WebPushMessage: Sendable {
  /// `Urgency`: what a phone that saves power still wants to hear.
  package enum Urgency: String, Sendable, CaseIterable {
    case veryLow = "very-low"
    case low, normal, high
  }

  /// Push services need not take more than 4096 bytes (RFC 8030 section 7.2); 103 of these are the header and the tag of
  /// `aes128gcm` (RFC 8291 section 4).
  package static let maximumBody = 3993

  /// The subscription.
  package var subscription: WebPushSubscription
  /// What the app gets, at most ``maximumBody`` bytes.
  package var body: ByteBuffer
  /// `Urgency`.
  package var urgency: Urgency
  /// `TTL`: how long the push service keeps it for a phone that is away, in seconds; nil: four weeks.
  package var timeToLive: Int?
  /// A newer message with the same one takes the place of one that waits: `Topic` is made of it.
  package var collapseID: String?

  /// A message by its parts.
  package init(
    subscription: WebPushSubscription, body: ByteBuffer, urgency: Urgency, timeToLive: Int? = nil,
    collapseID: String? = nil
  ) {
    self.subscription = subscription
    self.body = body
    self.urgency = urgency
    self.timeToLive = timeToLive
    self.collapseID = collapseID
  }
}
