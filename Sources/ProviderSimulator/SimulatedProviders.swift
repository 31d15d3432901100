import Crypto
import CryptoExtras
package import Foundation
internal import ServiceLifecycle

/// APNs and FCM as tests, the demo and benchmarks meet them: real TLS, HTTP/2 and signatures, strict where Apple and
/// Google are strict, with faults on demand. Listens on 127.0.0.1 only and calls nobody.
package final class SimulatedProviders: Service {
  /// The APNs port.
  package var apnsPort: Int { apns.port }
  /// The port of FCM, its OAuth endpoint and the control calls, each in TLS and in clear.
  package var fcmPort: Int { fcm.port }
  /// For `apns.endpoint`.
  package var apnsEndpoint: String { "https://127.0.0.1:\(apnsPort)" }
  /// For `fcm.endpoint`; in clear if the configuration says so.
  package var fcmEndpoint: String {
    "\(simulation.configuration.clear ? "http" : "https")://127.0.0.1:\(fcmPort)"
  }
  /// Where the control calls are, always in clear.
  package var controlURL: String { "http://127.0.0.1:\(fcmPort)/_control" }

  let simulation: Simulation
  let apns: Listener
  private let fcm: Listener
  let accessTokens: AccessTokens

  /// Binds both ports, and writes the `Keys` folder if the configuration names one.
  ///
  /// Throws what binding or writing throws; a folder with files that are not the simulator's is refused.
  package static func start(_ configuration: Configuration = .init()) async throws -> SimulatedProviders {
    let directory = configuration.keysDirectory.map { URL(filePath: $0, directoryHint: .isDirectory) }
    let credentials =
      try directory.flatMap(Credentials.init(directory:)) ?? Credentials(projectID: configuration.projectID)
    let simulation = Simulation(configuration: configuration, credentials: credentials)
    let apns = try await Listener.start(
      port: configuration.apnsPort, kind: .http2(initialStreams: 1),
      tls: credentials.authority.serverContext(applicationProtocols: ["h2"]), service: APNsService(simulation)
    )
    let fcmService = FCMService(
      simulation,
      control: ControlService(simulation: simulation) { faults in
        if faults.apns.outage { await apns.closeConnections() }
      })
    do {
      let fcm = try await Listener.start(
        port: configuration.fcmPort, kind: .any,
        tls: credentials.authority.serverContext(applicationProtocols: ["h2", "http/1.1"]),
        service: fcmService)
      let simulator = SimulatedProviders(
        simulation, apns: apns, fcm: fcm, accessTokens: fcmService.accessTokens)
      do {
        if let directory { try simulator.writeKeys(to: directory) }
      } catch {
        await fcm.close()
        throw error
      }
      return simulator
    } catch {
      await apns.close()
      throw error
    }
  }

  private init(_ simulation: Simulation, apns: Listener, fcm: Listener, accessTokens: AccessTokens) {
    self.simulation = simulation
    self.apns = apns
    self.fcm = fcm
    self.accessTokens = accessTokens
  }

  /// Serves until graceful shutdown, then closes the ports.
  package func run() async throws {
    try? await gracefulShutdown()
    await stop()
  }

  /// Closes both ports and every connection.
  package func stop() async {
    await apns.close()
    await fcm.close()
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
