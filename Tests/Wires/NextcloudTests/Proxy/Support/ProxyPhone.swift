import Crypto
import Foundation
import HTTP
import HTTPTypes
import Sealing

@testable import NextcloudProxy

/// A user's account in an app: what its server signs for it, and what the app tells the proxy.
struct ProxyPhone: Sendable {
  enum App: String, CaseIterable {
    case talkAndroid = "Mozilla/5.0 (Android) Nextcloud-Talk v21.0.0"
    case talkIOS = "Mozilla/5.0 (iOS) Nextcloud-Talk v21.0.0 (Strict VoIP)"
    case filesIOS = "Mozilla/5.0 (iOS) Nextcloud-iOS/6.0.0  (Strict VoIP)"

    /// A token as the app has one.
    var token: String {
      let hex = String((0..<64).map { _ in "0123456789ABCDEF".randomElement() ?? "0" })
      return switch self {
      case .talkAndroid: "fcm-\(hex):x"
      case .talkIOS: "\(hex) \(String(hex.reversed()))"
      case .filesIOS: hex
      }
    }
  }

  /// Users are few: making a key takes long.
  static let users = [RSAPrivateKey.generate(), RSAPrivateKey.generate()]
  /// As many as displaced a phone's own once.
  static let strangers = (0..<4).map { _ in RSAPrivateKey.generate() }

  var app: App
  var user: RSAPrivateKey
  var preimage: String
  var token: String

  init(_ app: App = .talkAndroid, user: RSAPrivateKey = users[0], token: String? = nil) {
    self.app = app
    self.user = user
    self.token = token ?? app.token
    preimage = #"["alice@cloud.example.org",\#(UInt32.random(in: 0 ... .max))]"#
  }

  var identifier: [UInt8] { Array(SHA512.hash(data: Data(preimage.utf8))) }
  var identifierText: String { Base64.encode(identifier) }
  var signature: String { Base64.encode(user.sign(Array(preimage.utf8))) }
  var tokenHash: String { SHA512Hex.of(token) }

  var fields: [(name: String, value: String)] {
    [
      ("pushToken", token), ("deviceIdentifier", identifierText), ("deviceIdentifierSignature", signature),
      ("userPublicKey", user.publicKey.pem),
    ]
  }

  func register(at bench: ProxyBench, from address: String? = nil) async throws -> ProxyBench.Answer {
    try await bench.call(
      .post, "/devices", userAgent: app.rawValue, address: address, body: Form.encode(fields))
  }

  func unregister(at bench: ProxyBench) async throws -> ProxyBench.Answer {
    try await bench.call(.delete, "/devices", userAgent: app.rawValue, body: Form.encode(fields))
  }

  /// A notification as the phone's server makes it. The proxy cannot read the encrypted subject.
  func entry(
    _ kind: String? = "alert", priority: String? = "high", subject: [UInt8] = ciphertext(),
    changing: (inout JSON.Object) -> Void = { _ in }
  ) -> String {
    var object: JSON.Object = [
      "deviceIdentifier": .string(identifierText), "pushTokenHash": .string(tokenHash),
      "subject": .string(Base64.encode(subject)), "signature": .string(Base64.encode(user.sign(subject))),
    ]
    object["priority"] = priority.map(JSON.string)
    object["type"] = kind.map(JSON.string)
    changing(&object)
    // As PHP writes it.
    return JSON.object(object).text.replacing("/", with: #"\/"#)
  }

  static func ciphertext() -> [UInt8] { (0..<256).map { _ in UInt8.random(in: .min ... .max) } }
}
