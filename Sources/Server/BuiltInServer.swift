import Accounts
import AsyncHTTPClient
import Foundation
import HTTPTypes
import Hummingbird
import Logging
import NIOCore
import Operations
import Registrations
import Sealing
import Synchronization
import Wire
import ZulipBouncer
import ZulipServer

/// The built-in chat-server side with all that it works with.
struct BuiltInServer {
  /// As whom it registers with this program's own bouncer. The name is one that nobody else can have.
  static let hostname = "built-in.localhost"

  let server: ZulipServer
  let accounts: Accounts
  let devices: Devices
  let eventNotifier: EventNotifier
  let notifier: Notifier
  let realms: RealmUpload?
  let registrar: Registrar?
  let unregistrar: LegacyUnregistrar?
  /// To another program's bouncer.
  private let client: HTTPClient?

  /// - Parameter ownBouncer: this program's.
  static func build(
    _ configuration: Configuration, store: Store, ownBouncer: ZulipBouncer, logger: Logger
  ) async throws -> BuiltInServer {
    let accounts = store.accounts
    let eventNotifier = EventNotifier()
    var local: RemoteServer?
    var client: HTTPClient?
    let bouncerClient: BouncerClient?
    switch configuration.server.bouncer {
    case .off: bouncerClient = nil
    case .local:
      let (server, key) = try await enrol(store)
      local = server
      bouncerClient =
        .inProcess(ownBouncer, id: server.uuid.uuidString.lowercased(), key: key, logger: logger)
    case .remote(let url):
      let remote = HTTPClient(
        eventLoopGroupProvider: .singleton, configuration: .outgoing(configuration.providers))
      client = remote
      bouncerClient = .remote(
        url: url, id: configuration.server.orgID ?? "", key: configuration.server.orgKey ?? "", client: remote
      )
    }
    let devices = Devices(
      database: store.database, storageKey: store.storageKey, localServer: local?.id, now: store.now,
      changed: eventNotifier.ring)
    let bouncer = bouncerClient.map { client in
      (client: client, realms: RealmUpload(accounts: accounts, bouncer: client, logger: logger))
    }
    let notifier = Notifier(devices: devices, bouncer: bouncer)
    let registrar = bouncer.map { bouncer in
      Registrar(
        devices: devices, bouncer: bouncer.client, realms: bouncer.realms, now: store.now,
        mayExpire: store.mayExpire, logger: logger)
    }
    let unregistrar = bouncer.map { bouncer in
      LegacyUnregistrar(
        tokens: devices.legacyTokens, bouncer: bouncer.client, now: store.now, logger: logger)
    }
    let server = ZulipServer(
      configuration: .init(
        rateLimitPerUser: configuration.server.rateLimitPerUser,
        maximumBodyBytes: configuration.http.maxBodyBytes),
      dependencies: .init(
        accounts: accounts, devices: devices, eventNotifier: eventNotifier, registrar: registrar,
        unregistrar: unregistrar,
        notifier: notifier,
        now: store.now))
    return BuiltInServer(
      server: server, accounts: accounts, devices: devices, eventNotifier: eventNotifier, notifier: notifier,
      realms: bouncer?.realms, registrar: registrar, unregistrar: unregistrar,
      client: client)
  }

  /// Works in the background until its task is cancelled.
  func run(logger: Logger) async {
    await withTaskGroup { group in
      group.addTask {
        await EventPoller(devices: devices, eventNotifier: eventNotifier, logger: logger).run()
      }
      if let realms { group.addTask { await realms.run() } }
      if let registrar { group.addTask { await registrar.run() } }
      if let unregistrar { group.addTask { await unregistrar.run() } }
    }
  }

  func close() async {
    try? await client?.shutdown()
  }

  /// Makes it one of the bouncer's chat servers. Its key follows from the storage key, so that it is the
  /// same on every node and kept nowhere.
  private static func enrol(_ store: Store) async throws -> (server: RemoteServer, key: String) {
    let key = store.storageKey.hash("key", for: StorageKey.Purpose("built_in_server")).map { byte in
      (byte < 16 ? "0" : "") + String(byte, radix: 16)
    }.joined()
    if let server = try await store.servers.find(hostname: hostname) { return (server, key) }
    do {
      let added = try await store.servers.add(
        hostname: try Hostname(hostname), key: key, contactEmail: "root@\(hostname)")
      return (added.server, key)
    } catch RemoteServers.Refusal.hostnameTaken {
      // Another node was faster.
      guard let server = try await store.servers.find(hostname: hostname) else {
        throw RemoteServers.Refusal.hostnameTaken
      }
      return (server, key)
    }
  }
}

extension BouncerClient {
  /// This program's own bouncer, called without a network, by the same rules as any.
  fileprivate static func inProcess(
    _ bouncer: ZulipBouncer, id: String, key: String, logger: Logger
  ) -> BouncerClient {
    let router = Router(context: WireContext.self)
    router.add(middleware: EnvelopeMiddleware())
    bouncer.addRoutes(to: router)
    let responder = router.buildResponder()
    let credentials = "Basic \(Base64.encode(Array("\(id):\(key)".utf8)))"
    return BouncerClient { call in
      let head = HTTPRequest(
        method: .post, scheme: nil, authority: nil, path: "/api/v1/remotes/\(call.endpoint)",
        headerFields: [.contentType: call.contentType, .authorization: credentials])
      let request = Request(head: head, body: RequestBody(buffer: ByteBuffer(bytes: call.body)))
      let response = try await responder.respond(to: request, context: WireContext(inProcess: logger))
      let buffer = CollectingWriter.Buffer()
      try await response.body.write(CollectingWriter(buffer: buffer))
      return Answer(status: response.status.code, body: buffer.contents)
    }
  }
}

/// Takes an answer's body to itself.
private struct CollectingWriter: ResponseBodyWriter {
  let buffer: Buffer

  final class Buffer: Sendable {
    private let bytes = Mutex(ByteBuffer())
    var contents: ByteBuffer { bytes.withLock { $0 } }
    func append(_ more: ByteBuffer) { bytes.withLock { _ = $0.writeImmutableBuffer(more) } }
  }

  func write(_ buffer: ByteBuffer) async throws { self.buffer.append(buffer) }
  consuming func finish(_ trailingHeaders: HTTPFields?) async throws {}
}
