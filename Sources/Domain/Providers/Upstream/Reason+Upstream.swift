extension Reason {
  /// The reasons of the upstream bouncer, and ours for not asking it.
  static let upstream: [Row] = [
    Row(
      .upstreamForgot, .dead,
      "The upstream bouncer does not have this device's registration any more.",
      .registersAgain),
    Row(
      .upstreamDisallows, .rejected,
      "The upstream bouncer does not send for this chat server, for example because of its plan there.",
      Advice(
        "No action needed here: the chat server's administrator has to settle it with the operator of the upstream bouncer.",
        forServers: "Settle it with the operator of the upstream bouncer.")
    ),
    Row(
      .upstreamKeyMissing, .retry(.token),
      "The chat server's key, with which it signs in at the upstream bouncer, is not known here yet.",
      Advice(
        "No action needed: it is kept when the server calls next. See push-bouncer server upstream show.",
        forServers: "No action needed: it is kept when the server calls next.")),
    Row(
      .upstreamKeyRefused, .retry(.tokenOrRoute),
      "The upstream bouncer does not accept the chat server's id and key.",
      Advice(
        """
        See whether the server is registered there with the same zulip_org_id and zulip_org_key: push-bouncer doctor asks. \
        Fix it there, then run push-bouncer server upstream enable again.
        """,
        forServers: """
          See that the server is registered there with the same zulip_org_id and zulip_org_key, then tell the operator of \
          this push notification service.
          """)),
    Row(
      .upstreamRealmRefused, .retry(.tokenOrRoute),
      "The upstream bouncer does not know the realm, or knows it as another server's.",
      Advice(
        """
        The server's realms are passed on with its next report: push-bouncer server upstream show says what came of the \
        last one.
        """, forServers: "The server's realms are passed on with its next report.")),
    Row(
      .unreadableReceipt, .retry(.tokenOrRoute),
      "The upstream bouncer has said that it took the notification, but what became of it was cut off or cannot be read.",
      Advice(
        """
        No action needed at first: as the phone may have it, it is sent again after 1, 5, 15 and 60 minutes. If it goes \
        on, see whether a machine in between cuts answers, and whether a newer push-bouncer reads them.
        """,
        forServers: """
          No action needed at first: it is sent again after 1, 5, 15 and 60 minutes. If it goes on, tell the operator of \
          this push notification service.
          """)),
    Row(
      .upstreamDisabled,
      "The chat server's notifications are not passed on to the upstream bouncer any more.",
      Advice(
        "If that was a mistake: push-bouncer server upstream enable.",
        forServers: "If that was a mistake, tell the operator of this push notification service.")),
  ]

  /// Whether the upstream bouncer lets nothing of one chat server in, until its key or its realms are in order there.
  package var concernsAccess: Bool {
    [.upstreamKeyMissing, .upstreamKeyRefused, .upstreamRealmRefused].contains(self)
  }
}

// MARK: Names that the code uses

extension Reason {
  /// The upstream bouncer has taken the notifications, and what it says of them is cut or of another form.
  package static let unreadableReceipt = Reason("unreadableReceipt")
  /// The operator has ended what was registered with the upstream bouncer.
  package static let upstreamDisabled = Reason("upstreamDisabled")
  /// The upstream bouncer does not send for this chat server, for example because of its plan.
  package static let upstreamDisallows = Reason("upstreamDisallows")
  /// The upstream bouncer does not have the registration (any more).
  package static let upstreamForgot = Reason("upstreamForgot")
  /// This chat server's key for the upstream bouncer is not known yet, or not any more.
  package static let upstreamKeyMissing = Reason("upstreamKeyMissing")
  /// The upstream bouncer refused the chat server's key (401).
  package static let upstreamKeyRefused = Reason("upstreamKeyRefused")
  /// The upstream bouncer does not know the realm, or as another server's (403).
  package static let upstreamRealmRefused = Reason("upstreamRealmRefused")
}
