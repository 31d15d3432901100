import Providers

@testable import NextcloudProxy
@testable import Sealing

/// `/devices` of the push proxy: a request with its query, type and body; keys and signatures included.
enum NextcloudDevicesTarget: FuzzTarget {
  static let name = "nextcloud-devices"

  static func run(_ bytes: [UInt8]) throws {
    let text = HTTPText(bytes)
    guard let parameters = try? blocking({ try await DeviceParameters(text.request, limit: 1 << 20) }) else {
      return
    }
    if let pem = try? parameters.required("userPublicKey"), let key = try? RSAPublicKey(pem: pem) {
      try check((try? RSAPublicKey(pem: key.pem)) == key, "a key reads as it is written")
      try check((2048...4096).contains(key.bits), "keys have 2048 to 4096 bits")
    }
    if let signed = try? SignedIdentifier(parameters) {
      try check(signed.identifier.count == 64, "an identifier has 64 bytes")
    }
    if let token = try? parameters.required("pushToken") { _ = try? PushToken(token, kind: .fcm) }
  }
}
