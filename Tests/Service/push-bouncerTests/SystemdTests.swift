import AsyncHTTPClient
import Foundation
import Logging
import NIOCore
import NIOHTTP1
import NIOSSL
import SQL
import Synchronization
import TestSupport
import Testing

@testable import Basics
@testable import Operator
@testable import Platform
@testable import Server

@Suite(.serialized) struct SystemdTests {
  private let path = FileManager.default.temporaryDirectory.appending(
    path: "\(UUID().uuidString.prefix(8)).sock"
  ).path

  @Test func `It is told what happens`() async throws {
    let manager = try NotifySocket(path: path)
    defer { unlink(path) }
    try await Workplace.test(environment: ["NOTIFY_SOCKET": path, "WATCHDOG_USEC": "100000"]) { place in
      try await place.serve { running in
        await eventually("ready") { manager.messages.first == "READY=1" }
        let root = try await running.call(path: "/")
        #expect(root.status == 404)
        await eventually("signs of life") { manager.messages.count > 4 }
        await running.end()
      }
    }
    let messages = manager.messages
    #expect(messages.last == "STOPPING=1")
    #expect(messages.dropFirst().dropLast().allSatisfy { $0 == "WATCHDOG=1" })
  }

  @Test func `A watchdog for another is not fed`() async throws {
    let manager = try NotifySocket(path: path)
    defer { unlink(path) }
    let environment = ["NOTIFY_SOCKET": path, "WATCHDOG_USEC": "1000", "WATCHDOG_PID": "1"]
    try await Workplace.test(environment: environment) { place in
      try await place.serve { running in
        await eventually("ready") { !manager.messages.isEmpty }
        await running.end()
      }
    }
    #expect(manager.messages == ["READY=1", "STOPPING=1"])
  }

  @Test func `A database that hangs is no life`() async throws {
    let socket = try NotifySocket(path: path)
    defer { unlink(path) }
    let manager = try #require(
      try ServiceManager(environment: ["NOTIFY_SOCKET": path, "WATCHDOG_USEC": "20000"], processID: getpid()))
    let file = FileManager.default.temporaryDirectory.appending(path: "\(UUID().uuidString).sqlite").path
    let database = try await SQLiteDatabase.open(path: file)
    let following = Task { await manager.follow(database, logger: Logger(label: "test")) { true } }
    await eventually("signs of life") { socket.messages.count > 3 }

    let (isHeld, gate) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
    // One for each of its readers.
    var holding: [Task<Void, any Error>] = []
    for _ in 0..<2 {
      holding.append(
        Task {
          try await database.read { _ in
            isHeld.signal()
            gate.wait()
          }
        })
      await withCheckedContinuation { done in
        Thread.detachNewThread {
          isHeld.wait()
          done.resume()
        }
      }
    }
    // One may be on its way.
    try await Task.sleep(for: .milliseconds(100))
    let silent = socket.messages.count
    try await Task.sleep(for: .milliseconds(300))
    #expect(socket.messages.count == silent)
    for _ in holding { gate.signal() }
    for task in holding { try await task.value }
    await eventually("signs of life") { socket.messages.count > silent }

    following.cancel()
    await following.value
    await database.close()
  }

  @Test func `Nobody waits for a service manager that does not listen now, and it learns all the same`()
    async throws
  {
    let socket = try NotifySocket(path: path)
    defer { unlink(path) }
    let manager = try #require(
      try ServiceManager(environment: ["NOTIFY_SOCKET": path, "WATCHDOG_USEC": "20000"], processID: getpid()))
    socket.fill()
    #expect(manager.notify(.stopping) == .full)
    let database = AskedDatabase()
    let following = Task { await manager.follow(database, logger: Logger(label: "test")) { true } }
    // It asks the database before it says anything: when it asks again, it has found the queue full.
    await eventually("a second question") { database.asked > 1 }
    await eventually("ready") { socket.messages.contains("READY=1") }
    await eventually("a sign of life") { socket.messages.last == "WATCHDOG=1" }
    socket.fill()
    let asked = database.asked
    await eventually("two questions more") { database.asked > asked + 1 }
    let before = socket.messages.count
    await eventually("signs of life") { socket.messages.count > before + 2 }
    following.cancel()
    await following.value
  }

  @Test func `A name in the abstract namespace works`() async throws {
    let name = "push-bouncer-\(UUID().uuidString)"
    let socket = try NotifySocket(path: "\0\(name)", isAbstract: true)
    let manager = try #require(try ServiceManager(environment: ["NOTIFY_SOCKET": "@\(name)"], processID: 1))
    #expect(manager.watchdogInterval == nil)
    #expect(manager.notify(.ready) == .sent)
    #expect(socket.messages == ["READY=1"])
  }

  @Test(arguments: ["relative", "@", "/", "vsock:2:1234", "/" + String(repeating: "a", count: 107)])
  func `Odd addresses are refused`(_ address: String) {
    #expect(throws: Fault.self) {
      _ = try ServiceManager(environment: ["NOTIFY_SOCKET": address], processID: 1)
    }
  }

  @Test func `Nothing is told where nobody listens`() throws {
    #expect(try ServiceManager(environment: [:], processID: 1) == nil)
    #expect(
      try ServiceManager(environment: ["NOTIFY_SOCKET": path], processID: 1)?.notify(.ready) == .notListening)
  }

  @Test func `A passed socket speaks TLS`() async throws {
    let held = try HeldSocket()
    let (certificate, key) = try TestCertificate.makePEM()
    try await Workplace.test { place in
      try place.write("certificate.pem", certificate)
      try place.write("key.pem", key)
      let tls = ["--http.tls.certificate_file", "certificate.pem", "--http.tls.key_file", "key.pem"]
      try await place.serve(tls, through: HeldSocket.launcher(), input: held.handle) { _ in
        var configuration = HTTPClient.Configuration()
        configuration.tlsConfiguration = .makeClientConfiguration()
        configuration.tlsConfiguration?.certificateVerification = .none
        configuration.timeout.connect = TimeAmount(longestWait)
        let answer = try await HTTPClient.withHTTPClient(configuration: configuration) { client in
          try? await client.execute(
            HTTPClientRequest(url: "https://127.0.0.1:\(held.port)/"), timeout: TimeAmount(longestWait))
        }
        #expect(answer?.status == .notFound)
        #expect(answer?.headers.first(name: "Date")?.hasSuffix(" GMT") == true)
      }
    }
  }

  @Test func `A held socket and the settings have to name the same address`() async throws {
    let held = try HeldSocket()
    try await Workplace.test { place in
      func start(_ address: String..., test: (Running) async throws -> Void) async throws {
        try await place.start(
          ["serve", "--admin.port", "0", "--log.format", "json"] + address, through: HeldSocket.launcher(),
          input: held.handle, test: test)
      }
      try await start("--http.port", "\(held.port)") { running in
        await eventually("listening") { running.port(of: "public") == held.port }
      }
      try await start("--http.host", "::1", "--http.port", "443") { running in
        #expect(await running.status() == 1)
        let words = """
          Error: http.port names port 443 of ::1, but systemd holds 127.0.0.1:\(held.port) for it; let both name the same: \
          systemctl edit push-bouncer.socket, with the lines [Socket], ListenStream= and ListenStream=[::1]:443, then \
          systemctl restart push-bouncer.socket
          """
        #expect(running.logged.contains(words), "\(running.logged)")
      }
    }
  }

  @Test func `What cannot be used ends the start`() async throws {
    try await Workplace.test { place in
      // The standard input is a file.
      let start = try await place.run(
        ["serve", "--http.port", "0", "--admin.port", "0"], through: HeldSocket.launcher())
      #expect(start.status == 1)
      #expect(start.errors.contains("descriptor 3 is no socket"))
    }
  }
}

/// A database that answers at once, and counts the questions.
private final class AskedDatabase: Database {
  private let questions = Mutex(0)

  var asked: Int { questions.withLock(\.self) }
  var engine: DatabaseEngine { .sqlite }

  func query(_ statement: Statement) async throws -> [Row] {
    questions.withLock { $0 += 1 }
    return []
  }

  func transaction(
    _ kind: TransactionKind, _ work: @escaping @Sendable (any Connection) throws -> Void
  ) async throws {}
  func execute(_ statement: Statement) async throws -> [Row] { [] }
  func close() async {}
}
