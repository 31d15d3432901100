extension Reason {
  /// The reasons of this program, and those that several providers share.
  static let own: [Row] = [
    Row(
      .abandoned, "The service ended before the provider's answer came.", .passes),
    Row(
      .backlogged,
      "The maximum number of notifications waits for this device, and further ones are refused.",
      Advice(
        "See why they wait: push-bouncer device show. There is room again as soon as some are sent.",
        forServers: "See why they wait (waiting_for). There is room again as soon as some are sent.")
    ),
    Row(
      .breakerOpen, "The route does not work at present, so nothing was sent.",
      Advice(
        "See why it does not: push-bouncer routes list.",
        forServers: "The reason of the route says why (routes).")),
    Row(
      .cancelled, "The caller stopped waiting before the provider's answer came.",
      .passes),
    Row(
      .connectionLost, "The provider, or a machine in between, takes connections and cuts them.",
      .cutConnections),
    Row(
      .deletionsHeld,
      """
      The provider reports too many tokens as dead at once to be believed: their registrations stay, and their deletion is \
      held back.
      """, .heldDeletions()),
    Row(
      .deviceOverPace,
      """
      More notifications come for this device than its pace allows: 240 a minute and 5,000 an hour, as at Google, which its \
      senders share.
      """,
      .same(
        "No action needed: those beyond the pace are sent as it allows. See who or what sends its user so many."
      )
    ),
    Row(
      .noRoom,
      """
      Too many notifications wait already: for its push service, or for all devices that were registered from one address \
      or belong to one sender.
      """,
      Advice(
        "See which route does not work: push-bouncer routes list. There is room again as soon as some are sent.",
        forServers: "There is room again as soon as some are sent.")
    ),
    Row(
      .overloaded, "Too many notifications wait for a connection to the provider.",
      .ifItLasts("see whether the provider is slow, or whether far more is sent than usual.")),
    Row(
      .refused, "Connections are open, but the provider refuses requests on them without processing them.",
      .ifItLasts("see what the provider says of outages.")),
    Row(
      .serverError, "The provider is out of order: it answers with a status of 500 or more.",
      .answersInBetween),
    Row(
      .serverOverPace,
      "Its chat server sends more notifications than its pace allows.",
      Advice(
        """
        No action needed: those beyond the pace are sent as it allows. If the server may send so many, raise \
        bouncer.notifications_per_server.
        """,
        forServers: """
          No action needed: those beyond the pace are sent as it allows. If the server has to send so many, ask the operator \
          of this push notification service for more.
          """)
    ),
    Row(
      .shuttingDown, "The service was being stopped, or its credential replaced.", .passes),
    Row(
      .streamReset, "The provider, or a machine in between, takes requests and breaks them off.",
      .cutConnections),
    Row(
      .timeout, "The provider does not answer in time.", .reach),
    Row(
      .unconfigured,
      """
      No credential of the bouncer serves this app (in the environment of Apple's that has the token) or Firebase \
      project, or Web Push is switched off there.
      """,
      Advice(
        """
        Put its key into Keys/apns (with the bundle id in topics) or Keys/fcm; it is reloaded within seconds. For Web \
        Push see webpush.enabled, for a device at the upstream bouncer upstream.url.
        """,
        forServers: """
          The app was built for another push notification service, or the operator of this one has to add a credential for \
          it.
          """)),
    Row(
      .unreadableAnswer, "The answer is not the provider's: perhaps a machine in between answers.",
      .answersInBetween),
  ]

  /// The row for a provider's name that no table has.
  static let unknownRow = Row(
    .unknown, "The provider gave a reason that this version does not know.",
    Advice(
      "See what the provider says of it, and whether there is a newer version of push-bouncer.",
      forServers: "Tell the operator of this push notification service."))
}
