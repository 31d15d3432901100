import AsyncHTTPClient
import Crypto
import HTTP
import NIOHTTP1
import Providers
import Sealing

@testable import Demo

/// A stranger's Nextcloud server, whose devices have made-up FCM tokens: the push proxy only requires that
/// the server has a key.
struct StrangersCloud {
  private struct Device {
    let token: String
    /// What the server signs: the user's name and the number of the app password.
    let preimage: [UInt8]

    var identifier: String { Base64.encode(Array(SHA512.hash(data: preimage))) }
    var tokenHash: String { hexadecimal(SHA512.hash(data: Array(token.utf8))) }

    private func hexadecimal(_ bytes: some Sequence<UInt8>) -> String {
      bytes.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
    }
  }

  private static let most = 100

  private let key = RSAPrivateKey.generate()
  private let devices: [Device]
  private let proxy: JSONService

  /// - Parameter address: the one that it comes from, as a trusted proxy tells it; nil: that of this machine.
  init(devices count: Int, at proxy: String, from address: String? = nil, client: HTTPClient) {
    devices = (0..<count).map {
      Device(token: Stage.phone(.fcm).token, preimage: Array(#"["\#($0)@cloud.example.net",1]"#.utf8))
    }
    self.proxy = JSONService(
      url: proxy, credentials: .none, userAgent: "Mozilla/5.0 (Android) Nextcloud-Talk v21.0.0",
      headers: address.map { [("X-Forwarded-For", $0)] } ?? [], client: client)
  }

  /// The tokens of its devices.
  var tokens: [String] { devices.map(\.token) }

  /// Has each device registered with the push proxy.
  func register() async throws {
    for device in devices {
      _ = try await proxy.call(
        .POST, "devices",
        .form([
          ("pushToken", device.token), ("deviceIdentifier", device.identifier),
          ("deviceIdentifierSignature", Base64.encode(key.sign(device.preimage))),
          ("userPublicKey", key.publicKey.pem),
        ]))
    }
  }

  /// Sends each device `count` notifications.
  func notify(each count: Int) async throws {
    let entries = (0..<count).flatMap { _ in self.entries() }
    for start in stride(from: 0, to: entries.count, by: Self.most) {
      let part = entries[start..<min(start + Self.most, entries.count)]
      _ = try await proxy.call(.POST, "notifications", .form(part.map { ("notifications[]", $0) }))
    }
  }

  /// A notification for each device.
  func entries() -> [String] {
    devices.map { device in
      let subject = (0..<256).map { _ in UInt8.random(in: .min ... .max) }
      let entry: JSON = [
        "deviceIdentifier": .string(device.identifier), "pushTokenHash": .string(device.tokenHash),
        "subject": .string(Base64.encode(subject)), "signature": .string(Base64.encode(key.sign(subject))),
        "priority": "high", "type": "alert",
      ]
      return entry.text
    }
  }

  /// Sends one notification, in a request of its own.
  ///
  /// - Returns: whether it was taken, and how long the answer took.
  func send(_ entry: String) async throws -> (isTaken: Bool, time: Duration) {
    let start = ContinuousClock.now
    let answer = try await proxy.call(.POST, "notifications", .form([("notifications[]", entry)]))
    return (answer == ["unknown": [], "failed": 0], .now - start)
  }
}
