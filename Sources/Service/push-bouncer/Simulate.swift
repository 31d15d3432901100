import ArgumentParser
import Basics
import Foundation
import HTTP
import Logging
import Operator
import Platform
import ProviderSimulator
import Server
import ServiceLifecycle
import UnixSignals

/// `simulate`: simulates Apple, Google and a Web Push push service on this machine.
struct Simulate: AsyncParsableCommand, PrintsDocument {
  static let configuration = CommandConfiguration(
    abstract: "Plays APNs, FCM and a Web Push service on this machine, for tests and for trying things out.",
    discussion: """
      Writes a Keys folder to --keys-out: credentials that the simulator accepts, and ca.pem, its certificate \
      authority. GET /_control/deliveries on the FCM port shows what has arrived. It stores nothing and never talks \
      to the outside.

      Like Apple's, a connection serves only the topics that the key had when the connection was opened, and takes \
      provider tokens of one key only. When these change too often, it takes none for a while. \
      PUT /_control/topics {"topics":[...]} changes the topics of the key.

      A phone subscribes at the push service with POST /subscriptions {"vapid":"..."} and gets an endpoint; \
      with "path":"/fcm/send" or "/wp" it gets one like Google's. \
      GET /subscriptions/ID/messages?since=N shows what has arrived there, still encrypted; \
      DELETE /subscriptions/ID ends the subscription.
      """)

  @OptionGroup var options: GlobalOptions
  @Option(help: ArgumentHelp("The port of APNs: HTTP/2 over TLS; 0 picks a free one.", valueName: "port"))
  var apnsPort = 2197
  @Option(
    help: ArgumentHelp(
      "The port of FCM, its OAuth endpoint and the control calls: with or without TLS; 0 picks a free one.",
      valueName: "port"))
  var fcmPort = 2198
  @Option(
    help: ArgumentHelp(
      "The port of the Web Push service: HTTP/2 or HTTP/1.1 over TLS; 0 picks a free one.",
      valueName: "port"))
  var webpushPort = 2199
  @Option(help: ArgumentHelp("The folder that gets the credentials.", valueName: "dir")) var keysOut: String
  @Option(help: "A bundle id that APNs knows; may be given several times.") var topic: [String] = []
  @Flag(
    help: "Plays the sandbox of APNs, too: writes a second key, whose pushes are the sandbox's.")
  var sandbox = false

  static var documents: [JSONDocument] {
    .of(document, note: "Printed once, when it listens; it then runs until it is stopped.")
  }

  private static var document: [JSONMember<(simulator: SimulatedProviders, keysOut: String)>] {
    [
      .member("apns_endpoint", "for `apns.endpoint`") { $0.simulator.apnsEndpoint },
      .member("fcm_endpoint", "for `fcm.endpoint`") { $0.simulator.fcmEndpoint },
      .member("webpush_endpoint", "address of the push service") { $0.simulator.webPushEndpoint },
      .member("keys_directory", "folder with the credentials, for `keys.directory`") { $0.keysOut },
      .member("ca_file", "for `providers.ca_file`") { "\($0.keysOut)/ca.pem" },
    ]
  }

  func run() async throws {
    let (configuration, _) = try options.readAsCaller(isNeeded: false)
    try FileOwner.become(ofWaysTo: [keysOut])
    bootstrapLogging(level: configuration.log.level, format: configuration.log.format)
    var settings = SimulatedProviders.Configuration()
    settings.apnsPort = apnsPort
    settings.fcmPort = fcmPort
    settings.webPushPort = webpushPort
    if !topic.isEmpty { settings.topics = topic }
    settings.keysDirectory = keysOut
    settings.hasSandbox = sandbox
    for (option, port) in [
      ("--apns-port", apnsPort), ("--fcm-port", fcmPort), ("--webpush-port", webpushPort),
    ] {
      guard (0...65535).contains(port) else { throw ValidationError("\(option) must be a port, 0 to 65535") }
      try ListenerAddress(host: "127.0.0.1", port: port, keys: (nil, option)).check()
    }
    if let obstacle = FileObstacle.creatingFiles(in: keysOut) {
      throw Fault(obstacle, of: keysOut, key: "--keys-out")
    }
    let simulator = try await SimulatedProviders.start(settings)
    options.show(
      (simulator, keysOut), Self.document,
      """
      APNs listens on \(simulator.apnsEndpoint), FCM on \(simulator.fcmEndpoint), a Web Push service on \
      \(simulator.webPushEndpoint). To use them:

      push-bouncer serve --keys.directory \(keysOut) --providers.ca_file \(keysOut)/ca.pem \\
        --apns.endpoint \(simulator.apnsEndpoint) --fcm.endpoint \(simulator.fcmEndpoint) \\
        --webpush.allow_private_hosts 127.0.0.1
      """)
    let group = ServiceGroup(
      configuration: .init(
        services: [simulator], gracefulShutdownSignals: [.sigterm, .sigint],
        logger: Logger(label: "simulator")))
    try await group.run()
  }
}
