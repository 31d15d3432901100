import Basics
import NIOCore

@testable import HTTP
@testable import NextcloudProxy
@testable import Sealing

/// `/notifications` of the push proxy, as a form and as JSON; an entry says the same in bytes as in base64.
enum NextcloudNotificationsTarget: FuzzTarget {
  static let name = "nextcloud-notifications"

  private static let maximum = 200
  /// Verifying takes 30 µs: those of the first are enough.
  private static let verified = 4

  static func run(_ bytes: [UInt8]) throws {
    let body = ByteBuffer(bytes: bytes)
    for type in ["application/x-www-form-urlencoded", "application/JSON; charset=utf-8"] {
      guard var reader = try? NotificationsBody(body, type: type, maximum: maximum) else { continue }
      let count = reader.count
      try check(count <= maximum, "there are not too many entries")
      let entries = (0...maximum).flatMap { _ in reader.next(3) }
      try check(entries.count == count && reader.count == 0, "all entries are read")
      for case let entry? in entries {
        try check(entry.identifier.count == 64 && entry.tokenHash.count == 64, "hashes have 64 bytes")
        try check(
          Base64.encode(entry.identifier).hasBytes(of: entry.identifierText),
          "an identifier is its base64")
        try check(
          Base64.encode(entry.ciphertext).hasBytes(of: entry.subject), "a ciphertext is its base64")
        try check(
          Base64.encode(entry.signature).hasBytes(of: entry.signatureText), "a signature is its base64")
      }
      for entry in entries.compactMap(\.self).prefix(verified) {
        _ = key.verifies(entry.signature, of: entry.ciphertext)
      }
    }
  }

  private static let key = RSAPrivateKey.generate().publicKey
}
