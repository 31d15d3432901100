import ArgumentParser
import AsyncHTTPClient
import Foundation
import Logging
import Operations
import ProviderSimulator
import Sealing
import Server
import ServiceLifecycle
import UnixSignals

/// `demo`: the whole story on this machine.
struct Demo: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract:
      "Plays the whole story on this machine, in a temporary folder; exits 0 only if every step happened.")

  @OptionGroup var options: GlobalOptions
  @Flag(help: "Leave everything running afterwards, to try by hand.") var keep = false

  func run() async throws {
    bootstrapLogging(level: .error, format: .text)
    let folder = FileManager.default.temporaryDirectory.appending(
      path: "push-bouncer-demo-\(UUID().uuidString.prefix(8))")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    defer { if !keep { try? FileManager.default.removeItem(at: folder) } }
    let keys = folder.appending(path: "Keys").path

    var settings = ProviderSimulator.Configuration()
    settings.keysDirectory = keys
    let simulator = try await ProviderSimulator.start(settings)
    guard let key = try BouncerKeyFiles(directory: keys).list().first else {
      throw CommandError("the simulator wrote no bouncer key")
    }
    let backendToken = RandomText.alphanumeric(32)
    // Nothing of this machine's own configuration belongs into the story.
    let (configuration, _) = try Configuration.load(
      file: nil, environment: [:],
      overrides: [
        "http.port": "0", "admin.port": "0", "database.url": "sqlite:\(folder.path)/push-bouncer.sqlite",
        "keys.directory": keys, "providers.ca_file": "\(keys)/ca.pem",
        "apns.endpoint": "https://127.0.0.1:\(simulator.apnsPort)",
        "fcm.endpoint": "https://127.0.0.1:\(simulator.fcmPort)",
        "bouncer.allowed_hostnames": Story.hostname, "backend.token": backendToken,
        // This machine is nobody's public address.
        "nextcloud.enabled": "true", "nextcloud.allow_local_proxies": "true",
      ], workingDirectory: folder.path)
    let service = try await BouncerService.build(configuration, logger: Logger(label: "push-bouncer"))
    let group = ServiceGroup(
      configuration: .init(
        services: [simulator] + service.services, gracefulShutdownSignals: keep ? [.sigterm, .sigint] : [],
        logger: Logger(label: "demo")))

    try await withThrowingTaskGroup(of: Void.self) { tasks in
      tasks.addTask { try await group.run() }
      let client = try PhoneHome.client(ca: "\(keys)/ca.pem")
      let story = Story(
        bouncer: "http://127.0.0.1:\(await service.publicPort.wait())",
        admin: "http://127.0.0.1:\(await service.adminPort.wait())", backendToken: backendToken,
        publicKey: key.publicKey,
        home: PhoneHome(url: "https://127.0.0.1:\(simulator.fcmPort)", client: client))
      do {
        let hero = try await story.play()
        if keep { tell(invitation(story, hero, folder.path)) }
      } catch {
        note("The story stopped here: \(error)")
        await group.triggerGracefulShutdown()
        try? await client.shutdown()
        throw ExitCode.failure
      }
      if !keep { await group.triggerGracefulShutdown() }
      try await tasks.waitForAll()
      try await client.shutdown()
    }
  }

  private func invitation(_ story: Story, _ hero: Story.Hero, _ folder: String) -> String {
    """

    Everything stays up until Ctrl-C, in \(folder):
      the bouncer            \(story.bouncer)
      the operator's side    \(story.admin)/readyz and /metrics
      Apple and Google       curl --cacert \(folder)/Keys/ca.pem \(story.home.url)/_control/deliveries
      the backend API        \(story.bouncer)/backend/v1, with Authorization: Bearer \(story.backendToken)
      an account             \(hero.email), API key \(hero.apiKey)

    A phone of that user, and a notification to it:
      push-bouncer device --server \(story.bouncer) --email \(hero.email) --api-key \(hero.apiKey) \\
        --public-key \(story.publicKey) --simulator \(story.home.url) --ca \(folder)/Keys/ca.pem --forget
      curl -H 'Authorization: Bearer \(story.backendToken)' -d '{"zulip":{"type":"message","content":"Hello"}}' \\
        \(story.bouncer)/backend/v1/realms/\(hero.realm)/users/\(hero.id)/notifications
    """
  }
}
