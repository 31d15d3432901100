import Basics
import Foundation
import HTTP
import Logging
import ProviderSimulator
import SQL
import ServiceLifecycle
import TestService
import TestSupport
import Testing

@testable import Operator
@testable import Platform
@testable import Server

/// What an operator is told when the service starts, and what it makes sure of by then.
@Suite struct StartTests {
  @Test(
    arguments: [
      (nil, false, Logger.Level.warning, ": nothing can be delivered"),
      ("https://push.example.com", false, nil, ""),
      ("https://push.example.com", true, .warning, ": nothing can be delivered"),
    ] as [(String?, Bool, Logger.Level?, String)])
  func `Missing keys are logged, unless another bouncer has them`(
    bouncer: String?, isProxy: Bool, level: Logger.Level?, text: String
  ) async throws {
    let log = LogRecorder()
    var settings = ["webpush.enabled": "false", "nextcloud.enabled": "\(isProxy)"]
    settings["server.bouncer"] = bouncer
    settings["server.org_id"] = bouncer.map { _ in UUID().uuidString }
    settings["server.org_key"] = bouncer.map { _ in String(repeating: "k", count: 64) }
    try await TestService.run(settings, logger: log.logger) { _ in }
    let line = log.lines.first { $0.message.hasPrefix("there is no credential in Keys/apns") }
    #expect(line?.level == level, "\(log.texts)")
    #expect(line.map { $0.message.hasSuffix(text) } != false)
  }

  @Test func `Apps of one's own that no credential serves are a warning`() async throws {
    try await withTemporaryFolder { folder in
      var simulated = SimulatedProviders.Configuration()
      simulated.keysDirectory = folder.path
      let simulator = try await SimulatedProviders.start(simulated)
      await simulator.stop()
      func finding(_ topic: String, _ project: String) async throws -> Finding? {
        let apps = """
          [{"name": "A", "user_agent": "a", "kind": "talk", "platform": "ios", "apns_topic": "\(topic)"},
           {"name": "B", "user_agent": "b", "kind": "talk", "platform": "android", "fcm_project": "\(project)"},
           {"name": "C", "user_agent": "c", "kind": "talk", "platform": "android"}]
          """
        let file = folder.appending(path: "apps.json")
        try Data(apps.utf8).write(to: file)
        let (configuration, _) = try Configuration.load(
          file: nil, environment: [:],
          overrides: [
            "nextcloud.enabled": "true", "nextcloud.apps_file": file.path, "keys.directory": folder.path,
          ], workingDirectory: folder.path)
        let checks = StartCheck.all(configuration, visit: DatabaseVisit(configuration.database.url))
        return await checks.first { $0.name == "nextcloud apps" }?.finding()
      }
      let lost = try await finding("org.example.Chat", "nobodys-project")
      #expect(lost?.standing == .warning)
      #expect(
        lost?.detail.hasSuffix(
          "A: no key in Keys/apns lists org.example.Chat; B: no service account in Keys/fcm is of nobodys-project"
        )
          == true, "\(String(describing: lost))")
      #expect(try await finding("org.example.chat", simulator.projectID)?.standing == .good)
    }
  }

  @Test func `A passed socket has to listen where the settings say`() {
    func key(_ host: String, _ port: Int, held: String) -> String? {
      let address = ListenerAddress(host: host, port: port, keys: ("http.host", "http.port"))
      do { try address.check(held: held) } catch { return error.key }
      return nil
    }
    #expect(key("127.0.0.1", 8080, held: "127.0.0.1:8080") == nil)
    #expect(key("127.0.0.1", 0, held: "127.0.0.1:8080") == nil)
    #expect(key("127.0.0.1", 8081, held: "127.0.0.1:8080") == "http.port")
    #expect(key("::1", 8080, held: "127.0.0.1:8080") == "http.port")
  }

  @Test func `Where one cannot listen, the setting is named that is wrong`() {
    func key(_ host: String, _ port: Int, _ hostKey: String? = "http.host") -> String? {
      do { try ListenerAddress(host: host, port: port, keys: (hostKey, "http.port")).check() } catch {
        return error.key
      }
      return nil
    }
    // An address for documentation, which no machine has.
    #expect(key("192.0.2.1", 0) == "http.host")
    #expect(key("192.0.2.1", 0, nil) == "http.port")
    #expect(key("127.0.0.1", 0) == nil)
  }

  @Test(arguments: [("60000/60s", 7200.0), ("10/3600s", 64_800), ("0", 7200)])
  func `What exceeds its server's pace may wait for as many windows as it is spread over`(
    _ pace: String, _ seconds: TimeInterval
  ) throws {
    let (configuration, _) = try Configuration.load(
      file: nil, environment: [:], overrides: ["bouncer.notifications_per_server": pace],
      workingDirectory: "/")
    #expect(configuration.longestPause == seconds)
  }

  @Test func `Systemd is not told that it is ready before the operator's listener is`() async throws {
    let path = FileManager.default.temporaryDirectory.appending(path: "\(UUID().uuidString.prefix(8)).sock")
      .path
    let socket = try NotifySocket(path: path)
    defer { unlink(path) }
    let manager = try ServiceManager(environment: ["NOTIFY_SOCKET": path], processID: getpid())
    try await withTemporaryFolder { folder in
      let (configuration, _) = try Configuration.load(
        file: nil, environment: [:],
        overrides: [
          "http.port": "0", "admin.port": "0", "keys.directory": folder.appending(path: "Keys").path,
          "database.url": "sqlite:\(folder.appending(path: "service.sqlite").path)",
        ], workingDirectory: folder.path)
      let service = try await BouncerService.build(
        configuration, metrics: PrometheusRegistry(), manager: manager, logger: .quiet)
      // The operator's comes before the public one.
      let admin = try #require(
        service.services.firstIndex { "\(type(of: $0))".hasPrefix("DeadlineService<") })
      var others = service.services
      others.remove(at: admin)
      let (first, second) = (
        ServiceGroup(services: others, logger: .quiet),
        ServiceGroup(services: [service.services[admin]], logger: .quiet)
      )
      try await withThrowingDiscardingTaskGroup { tasks in
        tasks.addTask { try await first.run() }
        _ = await service.publicPort.wait()
        // It looks every 50 ms whether it may say that it is ready.
        try await Task.sleep(for: .milliseconds(300))
        #expect(socket.messages.isEmpty)
        tasks.addTask { try await second.run() }
        await eventually("ready") { socket.messages == ["READY=1"] }
        await second.triggerGracefulShutdown()
        await first.triggerGracefulShutdown()
      }
    }
  }

  @Test func `The name of a key's folder is synced before a new database is sealed with the key`()
    async throws
  {
    try await withTemporaryFolder { folder in
      let keys = folder.appending(path: "Keys").path
      _ = try KeyFolder.storageKey(in: keys)
      let data = folder.appending(path: "data")
      try FileManager.default.createDirectory(at: data, withIntermediateDirectories: false)
      let (configuration, _) = try Configuration.load(
        file: nil, environment: [:],
        overrides: ["keys.directory": keys, "database.url": "sqlite:\(data.path)/test.sqlite"],
        workingDirectory: folder.path)
      for isNew in [true, false] {
        let openings = try Openings(of: folder.path)
        let store = try await Store.open(configuration, making: true)
        #expect(openings.any == isNew)
        await store.database.close()
      }
    }
  }

  @Test func `The names of a key and of its folders are synced before it is shown, whoever made them`() throws
  {
    try withTemporaryFolder { folder in
      let keys = folder.appending(path: "Keys")
      let files = BouncerKeyFiles(directory: keys.path)
      _ = try files.generate()
      let folders = [folder, keys, keys.appending(path: "bouncer")]
      for show in [{ _ = try files.generate() }, { try files.sync() }] {
        let openings = try folders.map { try Openings(of: $0.path) }
        try show()
        #expect(openings.map(\.any) == [true, true, true])
      }
    }
  }
}

/// Tells whether a folder was opened itself, as it is for syncing.
private final class Openings {
  private let descriptor = inotify_init1(CInt(IN_NONBLOCK | IN_CLOEXEC))

  init(of folder: String) throws {
    try #require(inotify_add_watch(descriptor, folder, UInt32(IN_OPEN)) >= 0)
  }

  deinit { close(descriptor) }

  /// Openings of what is in the folder come with a name.
  var any: Bool {
    let bytes = [UInt8](unsafeUninitializedCapacity: 1 << 16) { buffer, count in
      count = max(0, read(descriptor, buffer.baseAddress, buffer.count))
    }
    var rest = bytes[...]
    while rest.count >= 16 {
      let length = rest.dropFirst(12).prefix(4).reversed().reduce(0) { $0 << 8 | Int($1) }
      if length == 0 { return true }
      rest = rest.dropFirst(16 + length)
    }
    return false
  }
}
