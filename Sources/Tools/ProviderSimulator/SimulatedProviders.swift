import Crypto
import CryptoExtras
package import Foundation
import HTTP
import NIOHTTP2
import Providers
import ServiceLifecycle
import Synchronization

/// APNs, FCM and a push service of Web Push as tests, the demo and benchmarks meet them: real TLS, HTTP/2 and
/// signatures, strict where Apple, Google and the standards are strict, with faults on demand. Listens on 127.0.0.1
/// only and calls nobody.
package final class SimulatedProviders: Service {
  /// What a simulator needs to know before it starts.
  package struct Configuration: Sendable {
    // Ports; 0 picks a free one. That of FCM also has its OAuth endpoint and the control calls.
    package var apnsPort = 0
    package var fcmPort = 0
    package var webPushPort = 0
    /// The bundle ids that the APNs key may push to.
    package var topics = [
      "org.example.chat", "com.nextcloud.Talk", "it.twsweb.Nextcloud", "org.zulip.Zulip", "example.app",
    ]
    /// Whether the `Keys` folder gets a key of the sandbox, too.
    package var hasSandbox = false
    /// Makes the service account's `token_uri` an `http://` URL, so that FCM needs no trust root.
    package var clear = false
    /// A `Keys` folder to take the credentials from if an earlier run left them there, and to write them to.
    package var keysDirectory: String?
    /// How long an OAuth access token lasts, in seconds.
    package var accessTokenLifetime = 3600
    /// How long a connection must keep one provider token, in seconds (Apple: 20 minutes).
    var providerTokenInterval: TimeInterval = 20 * 60
    /// How many notifications are kept for reading; older ones go.
    package var keptDeliveries = 1_000_000
    /// The clock by which tokens are judged.
    package var now: @Sendable () -> Date = { Date() }

    package init() {}
  }

  struct State {
    var faults = Faults()
    var rules: [RuleKey: TokenRule] = [:]
    var counts = Counts()
    var requests: [Delivery.Provider: Int] = [:]
    var topics: Set<String>
  }

  let configuration: Configuration
  let credentials: Credentials
  let log: DeliveryLog
  let accessTokens: AccessTokens
  let subscriptions = Subscriptions()
  let state: Mutex<State>
  let listeners = Mutex<[Delivery.Provider: Listener]>([:])

  private init(_ configuration: Configuration, _ credentials: Credentials) {
    self.configuration = configuration
    self.credentials = credentials
    accessTokens = AccessTokens(credentials, lifetime: configuration.accessTokenLifetime)
    state = Mutex(State(topics: Set(configuration.topics)))
    log = DeliveryLog(limit: configuration.keptDeliveries)
  }

  /// Binds the ports, and writes the `Keys` folder if the configuration names one.
  ///
  /// Throws what binding or writing throws; a folder with files that are not the simulator's is refused.
  package static func start(_ configuration: Configuration = .init()) async throws -> SimulatedProviders {
    let directory = configuration.keysDirectory.map { URL(filePath: $0, directoryHint: .isDirectory) }
    let simulator = SimulatedProviders(
      configuration, try directory.flatMap(Credentials.init(directory:)) ?? Credentials())
    do {
      try await simulator.listen(
        configuration.apnsPort, .init(streams: 1, isHTTP2Only: true), APNsService(simulation: simulator))
      try await simulator.listen(
        configuration.fcmPort, .init(allowsClear: true), FCMService(simulation: simulator))
      try await simulator.listen(
        configuration.webPushPort, .init(streams: 100), WebPushService(simulation: simulator))
      if let directory { try simulator.writeKeys(to: directory) }
      return simulator
    } catch {
      await simulator.stop()
      throw error
    }
  }

  private func listen(_ port: Int, _ options: Listener.Options, _ service: any PushService) async throws {
    let listener = try await Listener.start(
      port: port, options,
      tls: credentials.authority.serverContext(
        applicationProtocols: options.isHTTP2Only ? ["h2"] : ["h2", "http/1.1"]),
      service: service)
    listeners.withLock { $0[service.provider] = listener }
  }

  /// Serves until graceful shutdown, then closes the ports.
  package func run() async throws {
    try? await gracefulShutdown()
    await stop()
  }

  /// Closes the ports and every connection.
  package func stop() async {
    for listener in listeners.withLock({ $0.values }) { await listener.close() }
  }

  private func port(_ provider: Delivery.Provider) -> Int {
    listeners.withLock { $0[provider]?.port } ?? 0
  }

  package var apnsPort: Int { port(.apns) }
  package var fcmPort: Int { port(.fcm) }
  package var webPushPort: Int { port(.webPush) }
  /// For `apns.endpoint`.
  package var apnsEndpoint: String { "https://127.0.0.1:\(apnsPort)" }
  /// For `fcm.endpoint`; in clear if the configuration says so.
  package var fcmEndpoint: String { "\(configuration.clear ? "http" : "https")://127.0.0.1:\(fcmPort)" }
  /// Where phones subscribe, and where their endpoints are.
  package var webPushEndpoint: String { "https://127.0.0.1:\(webPushPort)" }
  /// Where the control calls are, always in clear.
  package var controlURL: String { "http://127.0.0.1:\(fcmPort)/_control" }
}

// MARK: Credentials

extension SimulatedProviders {
  /// Writes the `Keys` folder that goes with this simulator: `apns/simulator.json` with its `.p8`, `fcm/default.json`,
  /// a bouncer key pair if there is none, and beside them `ca.pem` for `providers.ca_file` (and `ca-key.pem`, with
  /// which a later run stays trusted). Refuses a folder in whose places another's files stand.
  package func writeKeys(to directory: URL) throws {
    try credentials.write(
      to: directory, topics: configuration.topics, hasSandbox: configuration.hasSandbox,
      tokenURI: fcmEndpoint + "/token")
  }

  /// What clients have to trust, in PEM.
  package var certificateAuthorityPEM: String { get throws { try credentials.authority.certificatePEM } }
  /// The `kid` that provider tokens need.
  package var apnsKeyID: String { credentials.keyID }
  /// The sandbox's `kid`, and its key in PKCS#8.
  package var apnsSandboxKey: (id: String, pem: String) {
    (credentials.sandboxKeyID, credentials.sandboxKey.pemRepresentation)
  }
  /// The `iss` that provider tokens need.
  package var apnsTeamID: String { credentials.teamID }
  /// PKCS#8
  package var apnsPrivateKeyPEM: String { credentials.apnsKey.pemRepresentation }
  /// The Firebase project; in a folder of an earlier run, that run's.
  package var projectID: String { credentials.projectID }
  /// The `iss` of assertions.
  package var serviceAccountEmail: String { credentials.clientEmail }
  /// PKCS#8
  package var serviceAccountPrivateKeyPEM: String { credentials.serviceAccountKey.pkcs8PEMRepresentation }
}

// MARK: Control

extension SimulatedProviders {
  /// Too few notifications arrived in time.
  package struct TimedOut: Error, CustomStringConvertible {
    let arrived: Int
    let wanted: Int

    package var description: String { "\(arrived) of \(wanted) notifications had arrived when time was up" }
  }

  /// Kept notifications after the one numbered `since`, oldest first.
  package func deliveries(since: Int = 0, includingRefused: Bool = false) -> [Delivery] {
    log.entries(after: since, refused: includingRefused, limit: .max).deliveries
  }

  /// Waits until `count` notifications have been accepted since the start or the last reset, and returns all of them.
  /// - Throws: `TimedOut`, or `CancellationError` if the task was cancelled.
  @discardableResult
  package func waitForDeliveries(count: Int, timeout: Duration = .seconds(300)) async throws -> [Delivery] {
    await log.wait(until: { $0.accepted >= count }, timeout)
    try Task.checkCancellation()
    let arrived = log.accepted
    guard arrived >= count else { throw TimedOut(arrived: arrived, wanted: count) }
    return deliveries()
  }

  /// Subscribes a phone to messages that are signed with the private half of this key.
  ///
  /// - Returns: the subscription's id, the last part of its endpoint; nil for what is no key.
  package func subscribe(vapid: String) -> String? {
    Base64URL.decodeUnpadded(vapid).flatMap { subscriptions.add(key: $0) }
  }

  /// Ends a subscription, as its phone does.
  package func unsubscribe(_ id: String) { try? subscriptions.delete(id) }

  /// What happened since the start or the last reset.
  package var counts: Counts { state.withLock(\.counts) }

  func count(_ change: (inout Counts) -> Void) {
    state.withLock { change(&$0.counts) }
  }

  /// Counts a connection, once, as one that pushes.
  func countOnce(_ connection: Connection) {
    guard !connection.isCounted else { return }
    connection.isCounted = true
    count { $0.connections += 1 }
  }

  package var faults: Faults { state.withLock(\.faults) }

  /// Replaces the faults. With an APNs outage, returns once its connections are closed.
  package func setFaults(_ faults: Faults) async {
    state.withLock { $0.faults = faults }
    if faults.apns.outage { await dropAPNsConnections() }
  }

  /// Revokes every OAuth access token issued so far, as a key rotation at Google does.
  package func revokeAccessTokens() {
    accessTokens.revokeAll()
  }

  /// What the APNs key may push to. As with Apple, a connection serves the topics that the key had when it was opened.
  package var topics: Set<String> {
    get { state.withLock(\.topics) }
    set { state.withLock { $0.topics = newValue } }
  }

  /// Forgets notifications, counts, token rules, faults and changes of the topics. Sequence numbers go on.
  package func reset() {
    state.withLock { $0 = State(topics: Set(configuration.topics)) }
    log.reset()
  }

  /// Closes every APNs connection, as a restart of Apple's front end would.
  package func dropAPNsConnections() async {
    await listeners.withLock { $0[.apns] }?.closeConnections()
  }
}

// MARK: What is answered to one request
