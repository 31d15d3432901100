extension Reason {
  /// The reasons of this program, and those that several providers share.
  static let own: [Row] = [
    Row(
      .abandoned, "The service ended before the provider's answer came.", Explanation.passes),
    Row(
      .backlogged,
      "The maximum number of notifications (100) waits for this device, and further ones are refused.",
      "See why they wait: push-bouncer device show, at the bouncer. There is room again as soon as some are sent."
    ),
    Row(
      .breakerOpen, "The route does not work at present, so nothing was sent.",
      "See why it does not: push-bouncer routes list."),
    Row(
      .cancelled, "The caller stopped waiting before the provider's answer came.",
      Explanation.passes),
    Row(
      .connectionLost, "The provider, or a machine in between, takes connections and cuts them.",
      Explanation.cutConnections),
    Row(
      .deviceOverPace,
      "More notifications come for this device than its pace allows (240 a minute, 5,000 an hour, as at Google).",
      "No action needed: those beyond the pace are sent as it allows. See who or what sends its user so many."
    ),
    Row(
      .overloaded, "Too many notifications wait for a connection to the provider.",
      """
      \(Explanation.passesAtFirst) see whether the provider is slow, or whether far more is sent than usual.
      """),
    Row(
      .refused, "Connections are open, but the provider refuses requests on them without processing them.",
      "\(Explanation.passesAtFirst) see what the provider says of outages."),
    Row(
      .serverError, "The provider is out of order: it answers with a status of 500 or more.",
      Explanation.answersInBetween),
    Row(
      .serverOverPace,
      "Its chat server sends more notifications than its pace allows (bouncer.notifications_per_server).",
      "No action needed: those beyond the pace are sent as it allows. If the server may send so many, raise that setting."
    ),
    Row(
      .shuttingDown, "The service was being stopped, or its credential replaced.", Explanation.passes),
    Row(
      .streamReset, "The provider, or a machine in between, takes requests and breaks them off.",
      Explanation.cutConnections),
    Row(
      .timeout, "The provider does not answer in time.", Explanation.reach),
    Row(
      .unconfigured,
      """
      No credential of the bouncer serves this app (in the environment of Apple's that has the token) or Firebase \
      project, or Web Push is switched off there.
      """,
      """
      Put its key into Keys/apns (with the bundle id in topics) or Keys/fcm; it is reloaded within seconds. For Web \
      Push see webpush.enabled, for a device at the upstream bouncer upstream.url.
      """),
    Row(
      .unreadableAnswer, "The answer is not the provider's: perhaps a machine in between answers.",
      Explanation.answersInBetween),
  ]

  /// The row for a provider's name that no table has.
  static let unknownRow = Row(
    .unknown, "The provider gave a reason that this version does not know.",
    "See what the provider says of it, and whether there is a newer version of push-bouncer.")
}
