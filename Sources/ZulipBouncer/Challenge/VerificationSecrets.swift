internal import Foundation
internal import Registrations
internal import Sealing

/// Secrets that prove, for ten seconds, that this service was asked about a hostname: the hostname
/// and the time with their keyed hash, in upper-case base16. Nothing is stored.
struct VerificationSecrets: Sendable {
  /// Why a secret proves nothing.
  enum Invalid: Error, Hashable {
    case malformed, invalid, expired, otherHostname
  }

  private static let purpose = StorageKey.Purpose("verification_secret")
  private static let lifetime: TimeInterval = 10

  let storageKey: StorageKey
  let now: @Sendable () -> Date

  /// A secret about a hostname.
  func make(for hostname: Hostname) -> String {
    let signed = "\(now().milliseconds) \(hostname.text)"
    return Base16.encode(storageKey.hash(signed, for: Self.purpose) + signed.utf8)
  }

  /// Checks a secret that a host has shown.
  func check(_ secret: String, for hostname: Hostname) throws(Invalid) {
    guard let bytes = Base16.decode(secret) else { throw .malformed }
    guard bytes.count > 32, let signed = String(validating: bytes[32...], as: UTF8.self),
      storageKey.matches(signed, hash: Array(bytes[..<32]), for: Self.purpose)
    else { throw .invalid }
    let parts = signed.split(separator: " ", maxSplits: 1)
    guard parts.count == 2, let time = Int64(parts[0]) else { throw .invalid }
    // One from the future was made by a clock that was wrong: it must not live until that time.
    guard abs(now().timeIntervalSince(Date(milliseconds: time))) <= Self.lifetime else { throw .expired }
    guard parts[1] == hostname.text else { throw .otherHostname }
  }
}

/// Base16 in upper case (RFC 4648 section 8).
enum Base16 {
  private static let digits = Array("0123456789ABCDEF".utf8)

  static func encode(_ bytes: [UInt8]) -> String {
    String(decoding: bytes.flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] }, as: UTF8.self)
  }

  static func decode(_ text: String) -> [UInt8]? {
    let nibbles = text.utf8.compactMap { digits.firstIndex(of: $0) }
    guard nibbles.count == text.utf8.count, nibbles.count.isMultiple(of: 2) else { return nil }
    return stride(from: 0, to: nibbles.count, by: 2).map { UInt8(nibbles[$0] << 4 | nibbles[$0 + 1]) }
  }
}
