/// The method by which both sides of a TLS connection agree on their keys.
package enum KeyExchange: String, Sendable, Hashable, CaseIterable {
  /// X25519 together with ML-KEM, which quantum computers do not break: what is recorded today stays secret (RFC 9794;
  /// IETF draft-ietf-tls-ecdhe-mlkem).
  case x25519MLKEM768 = "X25519MLKEM768"
  case x25519 = "X25519"
  case p256 = "P-256"
  case p384 = "P-384"
  /// TLS 1.2, whose messages are not looked at further, or another group.
  case other

  /// - Parameter group: the number of the group (IANA, "TLS Supported Groups").
  init(group: UInt16) {
    self =
      switch group {
      case 0x11EC: .x25519MLKEM768
      case 0x001D: .x25519
      case 0x0017: .p256
      case 0x0018: .p384
      default: .other
      }
  }

  package var isPostQuantum: Bool { self == .x25519MLKEM768 }
}

/// Reads the key exchange from a TLS server's ServerHello, which is sent in the clear (RFC 8446, 4.1.3 and 4.2.8). NIOSSL
/// does not give it.
struct ServerHelloReader {
  /// More than a ServerHello and the HelloRetryRequest before it have.
  private static let maximumBytes = 16_384

  private var bytes: [UInt8] = []

  /// Takes further bytes; returns the key exchange once it is known.
  mutating func read(_ more: some Sequence<UInt8>) -> KeyExchange? {
    bytes += more
    guard bytes.count <= Self.maximumBytes else { return .other }
    var handshake: [UInt8] = []
    var records = Bytes(bytes[...])
    var isInTheClear = true
    while isInTheClear, let type = records.number(1), records.skip(2), let record = records.vector(2) {
      switch type {
      case 22: handshake += record
      // A server sends this after a ServerHello or HelloRetryRequest, for machines in between.
      case 20: continue
      default: isInTheClear = false
      }
    }
    var messages = Bytes(handshake[...])
    while let type = messages.number(1) {
      guard let message = messages.vector(3) else { break }
      guard type == 2 else { return .other }
      guard let hello = Hello(Bytes(message)) else { return .other }
      if hello.isRetryRequest { continue }
      return hello.group.map(KeyExchange.init) ?? .other
    }
    return isInTheClear ? nil : .other
  }

  private struct Hello {
    /// SHA-256 of "HelloRetryRequest" (RFC 8446, 4.1.3).
    private static let retryRequest: [UInt8] = [
      0xCF, 0x21, 0xAD, 0x74, 0xE5, 0x9A, 0x61, 0x11, 0xBE, 0x1D, 0x8C, 0x02, 0x1E, 0x65, 0xB8, 0x91, 0xC2,
      0xA2,
      0x11, 0x16, 0x7A, 0xBB, 0x8C, 0x5E, 0x07, 0x9E, 0x09, 0xE2, 0xC8, 0xA8, 0x33, 0x9C,
    ]

    let isRetryRequest: Bool
    /// The group in its `key_share`, which TLS 1.2 does not have.
    var group: UInt16?

    init?(_ message: Bytes) {
      var message = message
      guard message.skip(2), let random = message.read(32), message.vector(1) != nil, message.skip(3) else {
        return nil
      }
      isRetryRequest = random.elementsEqual(Self.retryRequest)
      var extensions = Bytes(message.vector(2) ?? [])
      while let type = extensions.number(2), let content = extensions.vector(2) {
        var content = Bytes(content)
        if type == 51 { group = content.number(2).map(UInt16.init) }
      }
    }
  }
}

/// Reads numbers and vectors, each of which begins with its length.
private struct Bytes {
  private var rest: ArraySlice<UInt8>

  init(_ bytes: ArraySlice<UInt8>) { rest = bytes }

  mutating func read(_ count: Int) -> ArraySlice<UInt8>? {
    guard rest.count >= count else { return nil }
    defer { rest = rest.dropFirst(count) }
    return rest.prefix(count)
  }

  mutating func skip(_ count: Int) -> Bool { read(count) != nil }

  /// - Parameter length: in bytes, at most four.
  mutating func number(_ length: Int) -> Int? { read(length)?.reduce(0) { $0 << 8 | Int($1) } }

  mutating func vector(_ length: Int) -> ArraySlice<UInt8>? {
    let start = rest
    if let count = number(length), let vector = read(count) { return vector }
    rest = start
    return nil
  }
}
