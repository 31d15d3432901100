import Providers

/// The control calls for tests in the same process.
extension SimulatedProviders {
  /// What `waitForDeliveries` could not wait for.
  package struct TimedOut: Error, CustomStringConvertible {
    /// How many had arrived.
    package let arrived: Int
    /// How many were waited for.
    package let wanted: Int

    /// For a test's report.
    package var description: String { "\(arrived) of \(wanted) notifications had arrived when time was up" }
  }

  /// Kept notifications after the one numbered `since`, oldest first.
  package func deliveries(since: Int = 0, includingRefused: Bool = false) -> [Delivery] {
    simulation.log.entries(after: since, refused: includingRefused, limit: .max).deliveries
  }

  /// Waits until `count` notifications have been accepted since the start or the last reset, and returns all of them.
  /// - Throws: `TimedOut`, or `CancellationError` if the task was cancelled.
  @discardableResult
  package func waitForDeliveries(count: Int, timeout: Duration = .seconds(30)) async throws -> [Delivery] {
    await simulation.log.wait(until: { $0.accepted >= count }, timeout: timeout)
    try Task.checkCancellation()
    let arrived = simulation.log.accepted
    guard arrived >= count else { throw TimedOut(arrived: arrived, wanted: count) }
    return deliveries()
  }

  /// Subscribes a phone to messages of whoever has the private half of this key.
  ///
  /// - Returns: the subscription's id, the last part of its endpoint; nil for what is no key.
  package func subscribe(vapid: String) -> String? {
    Base64URL.decodeUnpadded(vapid).flatMap(webPushService.subscriptions.add)
  }

  /// Ends a subscription, as its phone does.
  package func unsubscribe(_ id: String) { try? webPushService.subscriptions.end(id) }

  /// What happened since the start or the last reset.
  package var counts: Counts { simulation.counts }

  /// What is answered for one token from now on; nil: the ordinary answer.
  package func setToken(_ token: String, _ rule: TokenRule?) {
    simulation.setRule(rule, for: token)
  }

  /// The faults in force.
  package var faults: Faults { simulation.faults }

  /// Replaces the faults. With an APNs outage, returns once its connections are closed.
  package func setFaults(_ faults: Faults) async {
    simulation.faults = faults
    if faults.apns.outage { await apns.closeConnections() }
  }

  /// Makes every OAuth access token issued so far worthless, as a key rotation at Google's does.
  package func revokeAccessTokens() {
    fcmService.accessTokens.revokeAll()
  }

  /// What the APNs key may push to. As with Apple, a connection serves the topics that the key had when it was opened.
  package var topics: Set<String> {
    get { simulation.topics }
    set { simulation.topics = newValue }
  }

  /// Forgets notifications, counts, token rules, faults and changes of the topics. Sequence numbers go on.
  package func reset() {
    simulation.reset()
  }

  /// Closes every APNs connection, as a restart of Apple's front end would.
  package func dropAPNsConnections() async {
    await apns.closeConnections()
  }
}
