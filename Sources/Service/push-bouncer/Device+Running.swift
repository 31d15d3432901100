import ArgumentParser
import Demo
import Foundation
import HTTP
import Providers
import Sealing
import UnixSignals

extension Phone {
  /// Runs as an app at a chat server: registers, rotates keys and sends tests while it listens.
  func run(at chat: ChatClient, of bouncer: String, _ home: PhoneHome) async throws {
    let seen = try await home.next()
    // From here on a signal ends the listening, so that the phone can log out before the program ends.
    let signals = await UnixSignalsSequence(trapping: .sigint, .sigterm)
    let service = try pushService(home.client)
    let phone = try await SignedInPhone(
      makePhone(at: service, of: bouncer), at: chat, bouncerKey: try bouncerKey())
    printError("device \(phone.device)")
    do {
      try await withThrowingTaskGroup(of: Void.self) { tasks in
        tasks.addTask { for await _ in signals { return } }
        tasks.addTask {
          async let heard: Void = listen(at: home, service, after: seen) { await phone.phone }
          try await begin(phone, at: service, of: bouncer)
          try await heard
        }
        defer { tasks.cancelAll() }
        try await tasks.next()
      }
    } catch {
      if app.forget { try? await phone.logOut() }
      throw error
    }
    if app.forget {
      try await phone.logOut()
      printError("logged out: device \(phone.device) is forgotten")
    }
  }

  private func begin(_ phone: SignedInPhone, at service: PushService, of bouncer: String) async throws {
    try await phone.register()
    printError("registered: \(await phone.phone.summary)")
    if rotate {
      try await phone.rotateKey()
      printError("rotated its push key: \(await phone.phone.summary)")
      try await phone.rotateToken(to: kind == .webpush ? service.subscribe(for: bouncer) : nil)
      printError("rotated its token: \(await phone.phone.summary)")
    }
    if app.test { try await phone.sendTest() }
  }

  /// Runs as an app and its chat server in one.
  func run(with server: ChatServer, of bouncer: String, _ home: PhoneHome) async throws {
    if let hostname = own.hostname { _ = try await server.uploadRealm(hostname: hostname) }
    let service = try pushService(home.client)
    var phone = try await makePhone(at: service, of: bouncer)
    let seen = try await home.next()
    try await register(phone, at: server)
    if rotate {
      phone.rotateKey()
      if kind == .webpush {
        phone.move(to: try await service.subscribe(for: bouncer))
      } else {
        phone.rotateToken()
      }
      try await register(phone, at: server)
    }
    for text in own.send {
      _ = try await server.notify(
        [phone],
        [
          "type": "message", "recipient_type": "direct", "content": .string(text),
          "realm_url": "https://chat.example.org", "realm_name": "Example", "user_id": 10,
          "time": .integer(Int64(Date().timeIntervalSince1970)),
        ])
    }
    try await listen(at: home, service, after: seen) { [phone] in phone }
  }

  private func makePhone(at service: PushService, of bouncer: String) async throws -> VirtualPhone {
    switch kind {
    case .apns: VirtualPhone(.apns, appID: appID)
    case .fcm: VirtualPhone(.fcm, appID: nil)
    case .webpush: VirtualPhone(try await service.subscribe(for: bouncer))
    case .gateway: throw ValidationError("--kind gateway has no chat server")
    }
  }

  private func register(_ phone: VirtualPhone, at server: ChatServer) async throws {
    try await server.register(phone, bouncerKey: bouncerKey())
    printError("registered: \(phone.summary)")
  }
}

extension VirtualPhone {
  fileprivate var summary: String {
    "\(subscriptions.isEmpty ? kind.rawValue : "webpush") token \(tokenID.base64), push key \(keyID)"
  }
}
