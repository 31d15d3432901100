import Foundation
import HTTP
import Sealing

/// A phone whose app is signed in at a chat server, and so one of its user's devices there.
package actor SignedInPhone {
  /// The device's id.
  package nonisolated let device: Int64
  /// The phone itself.
  package private(set) var phone: VirtualPhone
  private let chat: ChatClient
  private let bouncerKey: String

  /// Makes the phone a device of the user.
  ///
  /// - Parameter bouncerKey: the bouncer's public key, as the app was shipped with it.
  package init(_ phone: VirtualPhone, at chat: ChatClient, bouncerKey: String) async throws {
    self.phone = phone
    self.chat = chat
    self.bouncerKey = bouncerKey
    device = try await chat.addDevice()
  }

  /// Hands over push key and token; returns when notifications arrive.
  package func register() async throws {
    try await chat.register(device: device, key: (phone.keyID, phone.key), token: try sealedToken())
    try await chat.wait(for: phone.tokenID, of: device)
  }

  /// Replaces the push key. What is on its way under the old one still opens.
  package func rotateKey() async throws {
    phone.rotateKey()
    try await chat.register(device: device, key: (phone.keyID, phone.key))
  }

  /// Replaces the token; returns when notifications arrive at the new one.
  ///
  /// - Parameter subscription: the one to go on with, on a phone without Google.
  package func rotateToken(to subscription: PushSubscription? = nil) async throws {
    if let subscription { phone.move(to: subscription) } else { phone.rotateToken() }
    try await chat.register(device: device, token: try sealedToken())
    try await chat.wait(for: phone.tokenID, of: device)
  }

  /// Asks for a test notification.
  package func sendTest() async throws {
    try await chat.sendTest(to: device)
  }

  /// Logs out.
  package func logOut() async throws {
    try await chat.removeDevice(device)
  }

  private func sealedToken() throws -> ChatClient.SealedToken {
    guard let sealed = phone.sealedRegistration(to: bouncerKey, at: Date()) else {
      throw DemoError("\(bouncerKey) is not a bouncer's public key")
    }
    return .init(kind: phone.kind, id: phone.tokenID, bouncerKey: bouncerKey, sealed: sealed)
  }
}
