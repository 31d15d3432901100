extension Reason {
  /// What push services say by their status (RFC 8030).
  static let webPush: [Row] = [
    Row(
      .subscriptionGone, .dead,
      "The push service says that this subscription is over: the app has ended it, or has another one.",
      .registersAgain),
    Row(
      .subscriptionUnknown, .dead, "The push service does not know this subscription.",
      .registersAgain),
    Row(
      .nameReserved, .dead,
      """
      No name server ever knows the push service's name: names that end in .invalid, .test, .example or .onion are reserved.
      """, .registersAgain),
    Row(
      .requestRefused, .rejected,
      "The push service does not take the message, and sending it again would not help.",
      """
      If it is one push service, see what its operator says. If it is most of them, see whether there is a newer version \
      of push-bouncer.
      """),
    Row(
      .vapidRefused, .retry(.tokenOrRoute), "The push service does not accept who we say we are (VAPID).",
      Advice(
        """
        \(forOne) For most of them: \(Explanation.setClock) See too that webpush.contact is an address that exists, and \
        that the database is the one that the phones subscribed with: its key pair is never replaced.
        """,
        forServers:
          "\(forOne) For most of them: the operator of this push notification service has to fix it.")),
    Row(
      .forbiddenAddress, .retry(.route),
      "The push service's name stands for a private address, so nothing is sent there.",
      Advice(
        """
        If it is your own push service, name it in webpush.allow_private_hosts. If it is anybody else's, no action is \
        needed: what waits for it is given up in time.
        """,
        forServers: """
          No action needed: what waits for it is given up in time. If it is a push service of your own, the operator of this \
          push notification service has to allow it.
          """)),
  ]

  private static let forOne = """
    For one subscription or push service, no action is needed: it was made for another server, and ends once the push \
    service has accepted messages to others.
    """
}

// MARK: Names that the code uses

extension Reason {
  /// The push service's name has an address that must not be called.
  package static let nameReserved = Reason("nameReserved")
  /// A push service refused the request (400 or another 4xx without a meaning of its own).
  package static let requestRefused = Reason("requestRefused")
  /// A push service answered that the subscription is gone (410).
  package static let subscriptionGone = Reason("subscriptionGone")
  /// A push service answered that it does not know the subscription (404).
  package static let subscriptionUnknown = Reason("subscriptionUnknown")
  /// A push service refused our VAPID token (401, 403).
  package static let vapidRefused = Reason("vapidRefused")
}
