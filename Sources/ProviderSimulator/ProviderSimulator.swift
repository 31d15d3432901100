import Foundation
public import ServiceLifecycle

/// APNs and FCM as tests, demo and benchmarks meet them: the providers' own rules, on this machine,
/// with faults on demand (`spec/interface.md` section 8). Never talks to the outside.
public final class ProviderSimulator: Sendable, Service {
  /// What to simulate, and where.
  public struct Configuration: Sendable {
    /// The address to listen on.
    public var host = "127.0.0.1"
    /// The port of APNs; 0 for any.
    public var apnsPort = 0
    /// The port of FCM, OAuth and control; 0 for any.
    public var fcmPort = 0
    /// The bundle ids that APNs knows; each counts with `.voip` too.
    public var topics = [
      "org.example.chat", "example.app", "org.zulip.Zulip", "com.nextcloud.Talk", "it.twsweb.Nextcloud",
    ]
    /// The Firebase project.
    public var project = "push-bouncer-simulator"
    /// How soon a connection may change its provider token.
    public var providerTokenInterval = Duration.seconds(20 * 60)
    /// How long access tokens hold, in seconds.
    public var accessTokenLifetime = 3600

    /// The defaults.
    public init() {}
  }

  /// The port of APNs.
  public let apnsPort: Int
  /// The port of FCM, OAuth and control.
  public let fcmPort: Int

  private let configuration: Configuration
  private let credentials: SimulatorCredentials
  private let plan: FaultPlan
  private let ledger: Ledger
  private let listeners: [Listener]

  /// Starts a simulator; it serves until `shutdown()`.
  ///
  /// - Parameter directory: where an earlier simulator wrote its keys: the new one takes them over,
  ///   so that a service running with them goes on to work. Nothing there: new keys, not written.
  public static func start(
    _ configuration: Configuration = .init(), reusing directory: String? = nil
  ) async throws -> ProviderSimulator {
    let kept = try directory.flatMap { try SimulatorCredentials.read(from: URL(filePath: $0)) }
    return try await ProviderSimulator(configuration, try kept ?? .make(project: configuration.project))
  }

  private init(_ configuration: Configuration, _ credentials: SimulatorCredentials) async throws {
    let plan = FaultPlan()
    let ledger = Ledger()
    let apns = APNsService(
      credentials: credentials, topics: configuration.topics, interval: configuration.providerTokenInterval,
      plan: plan, ledger: ledger)
    let fcm = FCMService(
      project: configuration.project,
      tokens: GoogleTokens(credentials: credentials, lifetime: configuration.accessTokenLifetime), plan: plan,
      ledger: ledger)
    let control = ControlService(plan: plan, ledger: ledger)
    let apnsTLS = try credentials.tlsContext(protocols: ["h2"])
    let fcmTLS = try credentials.tlsContext(protocols: ["h2", "http/1.1"])
    let first = try await Listener.bind(host: configuration.host, port: configuration.apnsPort) { channel in
      try Self.serveAPNs(channel, apns, apnsTLS)
    }
    let second: Listener
    do {
      second = try await Listener.bind(host: configuration.host, port: configuration.fcmPort) { channel in
        try Self.serveFCM(channel, fcm, control, fcmTLS)
      }
    } catch {
      await first.shutdown()
      throw error
    }
    apnsPort = first.port
    fcmPort = second.port
    listeners = [first, second]
    self.configuration = configuration
    self.credentials = credentials
    self.plan = plan
    self.ledger = ledger
  }

  /// Writes a `Keys` folder that matches this simulator, `ca.pem` and what a restart needs; what else
  /// is in the folder stays.
  public func writeKeys(to directory: String) throws {
    try credentials.write(
      to: URL(filePath: directory, directoryHint: .isDirectory), topics: configuration.topics,
      project: configuration.project, tokenURI: "https://127.0.0.1:\(fcmPort)/token")
  }

  /// Serves until the service group shuts down.
  public func run() async throws {
    try? await gracefulShutdown()
    await shutdown()
  }

  /// Stops listening and closes all connections.
  public func shutdown() async {
    for listener in listeners { await listener.shutdown() }
  }

  /// What is wrong on purpose.
  public var faults: SimulatorFaults {
    get { plan.faults }
    set { plan.faults = newValue }
  }

  /// What has been seen since the start or `reset()`.
  public var counts: SimulatorCounts { ledger.counts }

  /// What was accepted after the delivery with this sequence, in order.
  public func deliveries(since sequence: Int = 0) -> [Delivery] {
    ledger.deliveries(since: sequence).deliveries
  }

  /// What becomes of pushes to a device token; nil for the usual.
  public func setToken(_ token: String, _ rule: TokenRule?) {
    plan.set(rule, for: token)
  }

  /// Forgets deliveries, counts, faults and token rules.
  public func reset() {
    plan.reset()
    ledger.reset()
  }

  /// Waits until that many were accepted since the start or `reset()`; false if the time is up first.
  public func waitForDeliveries(_ count: Int, timeout: Duration) async -> Bool {
    await ledger.wait(for: count, timeout: timeout)
  }
}
