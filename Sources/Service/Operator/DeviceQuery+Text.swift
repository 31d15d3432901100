package import Delivery
import Foundation
import HTTP
import Providers
import Registrations
import Sealing

// What people type when they look for a device.
extension DeviceQuery {
  /// Longer texts are not searched for.
  package static let maximumBytes = 300

  /// Why a text cannot be searched for.
  package enum Refusal: Error, Sendable, Hashable, CustomStringConvertible {
    case empty
    /// Not valid as text in a database.
    case notText
    case tooLong
    case looksLikeToken

    package var description: String {
      switch self {
      case .empty: "Nothing to search for."
      case .notText: "No name contains such characters."
      case .tooLong:
        "This is too long: search for a hostname, a UUID, a user's number, a token's id or a device identifier."
      case .looksLikeToken:
        """
        This looks like a push token or a Web Push endpoint. It is a secret, which belongs neither into an address nor into \
        a command's arguments. Search for it with "push-bouncer device find --token-file -", which reads it from standard \
        input.
        """
      }
    }
  }

  /// Guesses the kind of query from what a person typed into the search field.
  package init(_ text: String) throws(Refusal) {
    guard text.utf8.count <= 4 * Self.maximumBytes else { throw .tooLong }
    let text = text.trimmingCharacters(in: .whitespacesAndNewlines)
    guard !text.isEmpty else { throw .empty }
    guard text.isStorable else { throw .notText }
    let bytes = Array(text.utf8)
    if let identifier = Self.identifier(text) {
      self = .identifier(identifier)
    } else if let row = Self.row(text) {
      self = row
    } else if let id = TokenID(base64: text) {
      self = .tokenID(id)
    } else if bytes.count == 16, let id = UInt64(text, radix: 16) {
      self = .tokenID(TokenID(storage: Int64(bitPattern: id)))
    } else if bytes.count == 8, bytes.contains(where: { $0 > 0x39 }), let digits = UInt32(text, radix: 16) {
      self = .fingerprint(digits)
    } else if let user = Self.user(text) {
      self = user
    } else if Self.looksLikeToken(bytes) {
      throw .looksLikeToken
    } else if bytes.count > Self.maximumBytes {
      throw .tooLong
    } else {
      self = .name(text)
    }
  }

  /// A device identifier of 64 bytes, from base64 or hexadecimal.
  package static func identifier(_ text: String) -> [UInt8]? {
    if text.utf8.count == 88, let bytes = Base64.decodeStrictly(text), bytes.count == 64 { return bytes }
    let digits = Array(text.utf8)
    guard digits.count == 128 else { return nil }
    let bytes = stride(from: 0, to: 128, by: 2).compactMap {
      UInt8(String(decoding: digits[$0..<$0 + 2], as: UTF8.self), radix: 16)
    }
    return bytes.count == 64 ? bytes : nil
  }

  /// `e2ee:12`
  package static func row(_ text: String) -> DeviceQuery? {
    let parts = text.split(separator: ":", omittingEmptySubsequences: false)
    guard parts.count == 2, let id = Int64(parts[1]),
      let wire = Wire(name: parts[0])
    else { return nil }
    return .registration(wire: wire.rawValue, id: id)
  }

  /// `7`, or `7 chat.example.org`
  private static func user(_ text: String) -> DeviceQuery? {
    let parts = text.split(whereSeparator: \.isWhitespace).map(String.init)
    guard let first = parts.first, parts.count <= 2, Int64(first) != nil || UUID(uuidString: first) != nil
    else {
      return nil
    }
    // A UUID alone may also be a server's or a realm's.
    if parts.count == 1, Int64(first) == nil { return nil }
    return .user(first, server: parts.count == 2 ? parts[1] : nil)
  }

  private static func looksLikeToken(_ bytes: [UInt8]) -> Bool {
    let text = String(decoding: bytes, as: UTF8.self)
    if PushToken.named(by: text) != nil || FCMMessage.isInstallationID(text) { return true }
    // A Web Push endpoint identifies a device as a token does.
    let scheme = Array("https://".utf8)
    if bytes.starts(with: scheme), bytes.dropFirst(scheme.count).dropLast().contains(UInt8(ascii: "/")) {
      return true
    }
    let isHexadecimal = bytes.allSatisfy { Character(Unicode.Scalar($0)).isHexDigit }
    if isHexadecimal { return bytes.count >= 32 }
    // FCM registration tokens are long and contain a colon.
    return bytes.count > 100 && bytes.contains(UInt8(ascii: ":")) && !bytes.contains(UInt8(ascii: "."))
  }
}
