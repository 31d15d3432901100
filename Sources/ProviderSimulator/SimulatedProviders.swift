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
  let subscriptions: Subscriptions
  let accessTokens: AccessTokens

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
      _ port: Int, _ kind: Listener.Kind, _ protocols: [String], _ service: any Responder
    ) async throws -> Listener {
      let listener = try await Listener.start(
        port: port, kind: kind, tls: credentials.authority.serverContext(applicationProtocols: protocols),
        service: service)
      listeners.append(listener)
      return listener
    }
    do {
      let apns = try await listen(
        configuration.apnsPort, .http2(initialStreams: 1), ["h2"], APNsService(simulation))
      let fcmService = FCMService(
        simulation,
        control: ControlService(simulation: simulation) { faults in
          if faults.apns.outage { await apns.closeConnections() }
        })
      let fcm = try await listen(configuration.fcmPort, .any, ["h2", "http/1.1"], fcmService)
      let webPushService = WebPushService(simulation)
      let webPush = try await listen(
        configuration.webPushPort, .tls(streams: 100), ["h2", "http/1.1"], webPushService)
      let simulator = SimulatedProviders(
        simulation, apns: apns, fcm: fcm, webPush: webPush, subscriptions: webPushService.subscriptions,
        accessTokens: fcmService.accessTokens)
      if let directory { try simulator.writeKeys(to: directory) }
      return simulator
    } catch {
      for listener in listeners { await listener.close() }
      throw error
    }
  }

  private init(
    _ simulation: Simulation, apns: Listener, fcm: Listener, webPush: Listener, subscriptions: Subscriptions,
    accessTokens: AccessTokens
  ) {
    self.subscriptions = subscriptions
    self.simulation = simulation
    self.apns = apns
    self.fcm = fcm
    self.webPush = webPush
    self.accessTokens = accessTokens
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
}
