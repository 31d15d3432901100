import Foundation
import HTTP
import HTTPTypes
import Logging
import ProviderSimulator
import Registrations
import Sealing
import Server
import TestService
import TestSupport
import Testing

@testable import Basics
@testable import HTTPClient
@testable import ZulipBouncer

/// A company's bouncer beside the upstream bouncer, each with providers of its own, and a chat server that is registered at
/// both with one pair of credentials.
struct Beside: Sendable {
  static let storeApp = "org.store.app"

  let ours: Simulated
  let theirs: Simulated
  let server: Credentials
  let realm: String

  var bouncer: Bouncer { ours.bouncer }
  var links: UpstreamLinks { bouncer.test.service.store.upstreamLinks }

  /// Runs a test with both.
  ///
  /// - Parameter isEnabled: whether the server has an upstream link.
  static func test(
    _ settings: [String: String] = [:], isEnabled: Bool = true, logger: Logger = .quiet,
    _ body: @escaping @Sendable (Beside) async throws -> Void
  ) async throws {
    try await Simulated.test(topic: storeApp, clock: TestClock(nil), isWorking: true) { theirs in
      let port = await theirs.bouncer.test.service.publicPort.wait()
      let upstream = ["upstream.url": "http://127.0.0.1:\(port)"]
      try await Simulated.test(
        upstream.merging(settings) { $1 }, clock: TestClock(nil), isWorking: true, logger: logger
      ) { ours in
        let server = try await theirs.bouncer.server()
        let realm = try await theirs.bouncer.realm(of: server)
        try await ours.bouncer.admit(server)
        let beside = Beside(ours: ours, theirs: theirs, server: server, realm: realm)
        if isEnabled { try await beside.enable() }
        _ = try await ours.bouncer.realm(of: server, uuid: realm)
        try await body(beside)
      }
    }
  }

  /// Gives the server an upstream link.
  func enable() async throws { try await bouncer.enableUpstream() }

  /// Registers a phone with the store's app.
  func registerStore(_ registration: JSON) async throws -> Answer {
    try await bouncer.post("push/e2ee/register", storeForm(registration), as: server)
  }

  func storeForm(_ registration: JSON) throws -> [(String, String)] {
    var registration = registration
    if registration["ios_app_id"] != nil, case .object(var object) = registration {
      object["ios_app_id"] = .string(Self.storeApp)
      registration = .object(object)
    }
    return try theirs.bouncer.registerForm(realm: realm, registration)
  }

  /// Registers a phone with the company's app.
  func registerOwn(_ registration: JSON) async throws -> Answer {
    try await bouncer.post(
      "push/e2ee/register", try bouncer.registerForm(realm: realm, registration), as: server)
  }

  func notify(_ items: [JSON]) async throws -> Answer {
    try await bouncer.post("push/e2ee/notify", json: PushItem.body(realm, items), as: server)
  }
}

extension Bouncer {
  /// Lets a server in with the credentials that it has elsewhere.
  func admit(_ server: Credentials) async throws {
    _ = try await servers.add(
      hostname: try Hostname("chat.example.org"), uuid: try #require(UUID(uuidString: server.id)),
      key: server.key, contactEmail: "admin@example.org")
  }

  /// Gives a server an upstream link, as the operator's command does.
  func enableUpstream(_ hostname: String = "chat.example.org") async throws {
    let row = try #require(try await servers.find(hostname: hostname))
    try await test.service.store.upstreamLinks.enable(row.id)
    try await Task.sleep(for: RemoteServers.propagation)
  }
}
