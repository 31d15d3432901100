import Crypto
import CryptoExtras
package import Foundation
internal import ServiceLifecycle

/// APNs, FCM and a push service of Web Push as tests, the demo and benchmarks meet them: real TLS, HTTP/2 and
/// signatures, strict where Apple, Google and the standards are strict, with faults on demand. Listens on 127.0.0.1
/// only and calls nobody.
package final class SimulatedProviders: Service {
  /// The APNs port.
  package var apnsPort: Int { apns.port }
  /// The port of FCM, its OAuth endpoint and the control calls, each in TLS and in clear.
  package var fcmPort: Int { fcm.port }
  /// The push service's port.
  package var webPushPort: Int { webPush.port }
  /// For `apns.endpoint`.
  package var apnsEndpoint: String { "https://127.0.0.1:\(apnsPort)" }
  /// For `fcm.endpoint`; in clear if the configuration says so.
  package var fcmEndpoint: String {
    "\(simulation.configuration.clear ? "http" : "https")://127.0.0.1:\(fcmPort)"
  }
  /// Where phones subscribe, and where their endpoints are.
  package var webPushEndpoint: String { "https://127.0.0.1:\(webPushPort)" }
  /// Where the control calls are, always in clear.
  package var controlURL: String { "http://127.0.0.1:\(fcmPort)/_control" }

  let simulation: Simulation
  let apns: Listener
  private let fcm: Listener
  private let webPush: Listener
  let fcmService: FCMService
  let webPushService: WebPushService

  /// Binds the ports, and writes the `Keys` folder if the configuration names one.
  ///
  /// Throws what binding or writing throws; a folder with files that are not the simulator's is refused.
  package static func start(_ configuration: Configuration = .init()) async throws -> SimulatedProviders {
    let directory = configuration.keysDirectory.map { URL(filePath: $0, directoryHint: .isDirectory) }
    let credentials =
      try directory.flatMap(Credentials.init(directory:)) ?? Credentials(projectID: configuration.projectID)
    let simulation = Simulation(configuration: configuration, credentials: credentials)
    var listeners: [Listener] = []
    func listen(
      _ port: Int, _ options: Listener.Options, _ service: any Responder
    ) async throws -> Listener {
      let protocols = options.isHTTP2Only ? ["h2"] : ["h2", "http/1.1"]
      let listener = try await Listener.start(
        port: port, options, tls: credentials.authority.serverContext(applicationProtocols: protocols),
        service: service)
      listeners.append(listener)
      return listener
    }
    do {
      let apns = try await listen(
        configuration.apnsPort, .init(streams: 1, isHTTP2Only: true), APNsService(simulation))
      let fcmService = FCMService(
        simulation,
        control: ControlService(simulation: simulation) { faults in
          if faults.apns.outage { await apns.closeConnections() }
        })
      let fcm = try await listen(configuration.fcmPort, .init(allowsClear: true), fcmService)
      let webPushService = WebPushService(simulation)
      let webPush = try await listen(configuration.webPushPort, .init(streams: 100), webPushService)
      let simulator = SimulatedProviders(
        simulation, apns: apns, fcm: (fcm, fcmService), webPush: (webPush, webPushService))
      if let directory { try simulator.writeKeys(to: directory) }
      return simulator
    } catch {
      for listener in listeners { await listener.close() }
      throw error
    }
  }

  private init(
    _ simulation: Simulation, apns: Listener, fcm: (Listener, FCMService), webPush: (Listener, WebPushService)
  ) {
    self.simulation = simulation
    self.apns = apns
    (self.fcm, fcmService) = fcm
    (self.webPush, webPushService) = webPush
  }

  /// Serves until graceful shutdown, then closes the ports.
  package func run() async throws {
    try? await gracefulShutdown()
    await stop()
  }

  /// Closes the ports and every connection.
  package func stop() async {
    for listener in [apns, fcm, webPush] { await listener.close() }
  }

  /// Writes the `Keys` folder that goes with this simulator: `apns/simulator.json` with its `.p8`, `fcm/default.json`,
  /// a bouncer key pair if there is none, and beside them `ca.pem` for `providers.ca_file` (and `ca-key.pem`, with
  /// which a later run stays trusted). Refuses a folder in whose places another's files stand.
  package func writeKeys(to directory: URL) throws {
    try simulation.credentials.write(
      to: directory, topics: simulation.configuration.topics,
      environment: simulation.configuration.environment,
      tokenURI: fcmEndpoint + "/token")
  }

  /// What clients have to trust, in PEM.
  package var certificateAuthorityPEM: String {
    get throws { try simulation.credentials.authority.certificatePEM }
  }

  /// The `kid` that provider tokens need.
  package var apnsKeyID: String { simulation.credentials.keyID }
  /// The `iss` that provider tokens need.
  package var apnsTeamID: String { simulation.credentials.teamID }
  /// The private key of provider tokens, PKCS#8 PEM.
  package var apnsPrivateKeyPEM: String { simulation.credentials.apnsKey.pemRepresentation }
  /// The Firebase project; in a folder of an earlier run, that run's.
  package var projectID: String { simulation.credentials.projectID }
  /// The service account: the `iss` of its assertions.
  package var serviceAccountEmail: String { simulation.credentials.clientEmail }
  /// The service account's private key, PKCS#8 PEM.
  package var serviceAccountPrivateKeyPEM: String {
    simulation.credentials.serviceAccountKey.pkcs8PEMRepresentation
  }

  /// What a simulator needs to know before it starts.
  package struct Configuration: Sendable {
    /// Port of the APNs listener; 0 picks a free one.
    package var apnsPort = 0
    /// Port of the listener for FCM, its OAuth endpoint and the control calls; 0 picks a free one.
    package var fcmPort = 0
    /// Port of the listener of Web Push's push service; 0 picks a free one.
    package var webPushPort = 0
    /// The bundle ids that the APNs key may push to.
    package var topics = [
      "org.example.chat", "com.nextcloud.Talk", "it.twsweb.Nextcloud", "org.zulip.Zulip", "example.app",
    ]
    /// `production` or `sandbox`, as written to the key's description.
    package var environment = "production"
    /// The Firebase project.
    package var projectID = "push-bouncer-simulator"
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
}
