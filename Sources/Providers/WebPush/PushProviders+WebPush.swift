extension PushProviders {
  /// The public key that apps subscribe with, in base64url; nil where Web Push is switched off.
  package var vapidPublicKey: String? { factory.webPush?.key.publicKey }

  /// Whether messages may be sent to a subscription's host: not where that is an address or a private name or has a
  /// private address, unless the operator has named it. A name that does not answer within two seconds is taken, as every
  /// connection is checked again.
  package func accepts(_ subscription: WebPushSubscription) async -> Bool {
    guard factory.webPush != nil else { return false }
    return await factory.webPushAddresses.allow(subscription.endpoint.host)
  }

  /// The senders of the push services that were used of late, at most 10,000.
  package var webPushSenders: [RouteSender] { hosts?.routeSenders ?? [] }
}
