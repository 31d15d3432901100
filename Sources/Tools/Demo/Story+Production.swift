import AsyncHTTPClient
package import Foundation
import Logging
import Operator
import ProviderSimulator
import Sealing
import Server
import ServiceLifecycle
import UnixSignals

extension Story {
  /// The error of a story that stopped before its end.
  package struct Interruption: Error {
    package let reason: any Error
  }

  /// Plays the story with the real service and simulated providers.
  ///
  /// - Parameters:
  ///   - folder: where keys and database are put.
  ///   - stays: whether everything stays up afterwards, until SIGTERM or SIGINT.
  ///   - print: takes the story's text, line by line.
  /// - Throws: an ``Interruption`` where a step does not happen.
  package static func play(
    in folder: URL, stays: Bool, print: @escaping @Sendable (String) -> Void
  ) async throws {
    let keys = folder.appending(path: "Keys").path
    var settings = SimulatedProviders.Configuration()
    settings.keysDirectory = keys
    let simulator = try await SimulatedProviders.start(settings)
    guard let key = try BouncerKeyFiles(directory: keys).list().first else {
      throw DemoError("the simulator wrote no bouncer key")
    }
    let backendToken = RandomText.alphanumeric(32)
    let service = try await BouncerService.build(
      try configuration(in: folder.path, keys: keys, simulator, backendToken: backendToken),
      logger: Logger(label: "push-bouncer"))
    let group = ServiceGroup(
      configuration: .init(
        services: [simulator] + service.services, gracefulShutdownSignals: stays ? [.sigterm, .sigint] : [],
        logger: Logger(label: "demo")))

    try await withThrowingTaskGroup(of: Void.self) { tasks in
      tasks.addTask { try await group.run() }
      let client = try PhoneHome.client(ca: "\(keys)/ca.pem")
      let story = Story(
        bouncer: "http://127.0.0.1:\(await service.publicPort.wait())",
        admin: "http://127.0.0.1:\(await service.adminPort.wait())", backendToken: backendToken,
        publicKey: key.publicKey,
        home: PhoneHome(url: "https://127.0.0.1:\(simulator.fcmPort)", client: client),
        pushService: PushService(url: simulator.webPushEndpoint, client: client), print: print)
      do {
        let hero = try await story.play()
        if stays { print(story.invitation(hero, folder.path)) }
      } catch {
        await group.triggerGracefulShutdown()
        try? await client.shutdown()
        throw Interruption(reason: error)
      }
      if !stays { await group.triggerGracefulShutdown() }
      try await tasks.waitForAll()
      try await client.shutdown()
    }
  }

  /// The story's configuration. It takes nothing from this machine's own.
  private static func configuration(
    in folder: String, keys: String, _ simulator: SimulatedProviders, backendToken: String
  ) throws -> Configuration {
    try Configuration.load(
      file: nil, environment: [:],
      overrides: [
        "http.port": "0", "admin.port": "0", "database.url": "sqlite:\(folder)/push-bouncer.sqlite",
        "keys.directory": keys, "providers.ca_file": "\(keys)/ca.pem",
        "apns.endpoint": "https://127.0.0.1:\(simulator.apnsPort)",
        "fcm.endpoint": "https://127.0.0.1:\(simulator.fcmPort)",
        "bouncer.allowed_hostnames": hostname, "backend.token": backendToken,
        "webpush.allow_private_hosts": "127.0.0.1",
        // The demo's proxy has a local address.
        "nextcloud.enabled": "true", "nextcloud.allow_local_proxies": "true",
        "webpush_gateway.enabled": "true",
      ], workingDirectory: folder, systemFolder: folder
    ).0
  }

  /// The text that tells the user how to go on by hand.
  private func invitation(_ hero: Hero, _ folder: String) -> String {
    """

    Everything stays up until Ctrl-C, in \(folder):
      the bouncer            \(bouncer)
      the operator's side    \(admin)/readyz and /metrics
      Apple and Google       curl --cacert \(folder)/Keys/ca.pem \(home.url)/_control/deliveries
      the backend API        \(bouncer)/backend/v1, with Authorization: Bearer \(backendToken)
      an account             \(hero.email), API key \(hero.apiKey)

    A phone of that user, and a notification to it:
      push-bouncer device --server \(bouncer) --email \(hero.email) --api-key \(hero.apiKey) \\
        --public-key \(publicKey) --simulator \(home.url) --ca-file \(folder)/Keys/ca.pem --forget
        (without Google: also --kind webpush --push-service \(pushService.url))
      curl -H 'Authorization: Bearer \(backendToken)' -d '{"zulip":{"type":"message","content":"Hello"}}' \\
        \(bouncer)/backend/v1/realms/\(hero.host.realm)/users/\(hero.id)/notifications
    """
  }
}
