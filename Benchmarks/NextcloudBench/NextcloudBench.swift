import Crypto
import Delivery
import Foundation
import HTTP
import Logging
import Migrations
import NIOCore
import NextcloudProxy
import Providers
import Registrations
import SQL
import Sealing

/// Measures what a request of the Nextcloud proxy's `/notifications` costs for each of its entries, from the
/// body to what would be sent, against the bare cost of verifying an RSA signature of 2048 bits.
///
///     swift run -c release nextcloud-bench 1000 50
///
/// The first number is that of the entries, the second that of the users who share them. The figures are
/// CPU time of the whole process, whichever threads did the work.
@main
enum NextcloudBench {
  static let rounds = 50

  static func main() async throws {
    let arguments = CommandLine.arguments.dropFirst().compactMap(Int.init)
    let count = arguments.first ?? 1000
    let users = (0..<max(1, arguments.dropFirst().first ?? 50)).map { _ in RSAPrivateKey.generate() }
    let folder = FileManager.default.temporaryDirectory.appending(path: "bench-\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(at: folder) }
    let database = try await openDatabase(
      url: DatabaseURL("sqlite:\(folder.appending(path: "bench.sqlite").path)"))
    try await Schema.migrate(database)

    let now: @Sendable () -> Date = { Date() }
    let storageKey = StorageKey(bytes: [UInt8](repeating: 7, count: 32))
    let devices = NextcloudDevices(database: database, storageKey: storageKey, now: now)
    let entries = (0..<count).map { Entry(number: $0, user: users[$0 % users.count]) }
    for entry in entries { try await devices.register(entry.registration) }
    let proxy = try proxy(devices, database, storageKey, folder: folder, now: now)
    let body = ByteBuffer(
      bytes: Form.encode(entries.enumerated().map { ("notifications[\($0)]", $1.json) }))

    let verification = try await measure(count) {
      for entry in entries where !entry.user.publicKey.verifies(entry.signature, of: entry.ciphertext) {
        throw CocoaError(.coderInvalidValue)
      }
    }
    let lookup = try await measure(count) {
      guard try await devices.lookup(entries.map(\.registration.identifier)).count == count else {
        throw CocoaError(.coderInvalidValue)
      }
    }
    let whole = try await measure(count) {
      guard try await proxy.rehearse(body) == count else { throw CocoaError(.coderInvalidValue) }
    }
    print("\(count) entries of \(users.count) users, \(body.readableBytes) bytes; for each entry:")
    print("verifying its signature and nothing else: \(verification)")
    print("looking its device up and nothing else:   \(lookup)")
    print("all but sending it:                       \(whole)")
    print("ratio of CPU to verifying: \((whole.cpu / verification.cpu * 100).rounded() / 100)")
    await database.close()
  }

  static func proxy(
    _ devices: NextcloudDevices, _ database: any Database, _ storageKey: StorageKey, folder: URL,
    now: @escaping @Sendable () -> Date
  ) throws -> NextcloudProxyRoutes {
    let logger = Logger(label: "bench")
    let recorder = OutcomeRecorder(database: database, now: now)
    let deliverer = Deliverer(
      providers: try PushProviders(configuration: .init()), registrations: recorder,
      outbox: Outbox(database: database, storageKey: storageKey, maxAge: 86_400, now: now),
      deadline: .seconds(10), now: now, logger: logger)
    let lossDetector = StoreLossDetector(
      file: folder.appending(path: "store.json"), devices: devices, now: now, logger: logger)
    return NextcloudProxyRoutes(
      configuration: .init(),
      dependencies: .init(
        devices: devices, recorder: recorder, deliverer: deliverer, lossDetector: lossDetector, now: now,
        logger: logger))
  }

  struct Cost: CustomStringConvertible {
    /// Seconds for each entry.
    let cpu, wall: Double

    var description: String {
      "\((cpu * 1e7).rounded() / 10) µs of CPU, \(Int(1 / wall)) a second"
    }
  }

  /// The least of several rounds, for each of so many entries.
  static func measure(_ count: Int, _ work: @Sendable () async throws -> Void) async throws -> Cost {
    var cpu = Double.infinity
    var wall = Double.infinity
    for _ in 0..<rounds {
      let start = (cpuTime(), ContinuousClock.now)
      try await work()
      cpu = min(cpu, cpuTime() - start.0)
      wall = min(wall, (ContinuousClock.now - start.1) / .seconds(1))
    }
    return Cost(cpu: cpu / Double(count), wall: wall / Double(count))
  }

  static func cpuTime() -> Double { Double(clock()) / 1e6 }
}

/// A notification with the device that it is for.
struct Entry {
  let user: RSAPrivateKey
  let registration: NextcloudDevice.Registration
  let ciphertext: [UInt8]
  let signature: [UInt8]

  init(number: Int, user: RSAPrivateKey) {
    self.user = user
    let token = "bench-token-\(number):" + String(repeating: "x", count: 120)
    registration = .init(
      identifier: Array(SHA512.hash(data: Data("\(number)".utf8))), userKey: user.publicKey.der, token: token,
      tokenHash: Array(SHA512.hash(data: Data(token.utf8))),
      destination: .init(.fcm, app: "Talk for Android", target: nil))
    ciphertext = (0..<256).map { _ in UInt8.random(in: .min ... .max) }
    signature = user.sign(ciphertext)
  }

  /// As PHP writes it.
  var json: String {
    let hash = registration.tokenHash.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
    return JSON.object([
      "deviceIdentifier": .string(Base64.encode(registration.identifier)), "pushTokenHash": .string(hash),
      "subject": .string(Base64.encode(ciphertext)), "signature": .string(Base64.encode(signature)),
      "priority": "high", "type": "alert",
    ]).text.replacing("/", with: #"\/"#)
  }
}
