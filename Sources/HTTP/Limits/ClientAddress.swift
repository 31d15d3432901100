internal import Foundation
package import NIOCore

#if canImport(Glibc)
  internal import Glibc
#endif

/// The address of a client, independent of its spelling: `::ffff:192.0.2.1`, as a listener on `::` sees an
/// IPv4 client, equals `192.0.2.1`.
package struct ClientAddress: Sendable, Hashable {
  /// The 128 bits of an IPv6 address; an IPv4 address is mapped into IPv6.
  let bits: UInt128

  private init(bits: UInt128) { self.bits = bits }

  private init(ipv4: in_addr) { bits = Self.mapped | UInt128(UInt32(bigEndian: ipv4.s_addr)) }

  private init(ipv6: in6_addr) {
    bits = withUnsafeBytes(of: ipv6) { bytes in bytes.reduce(0) { $0 << 8 | UInt128($1) } }
  }

  /// Parses dotted decimal, or IPv6 without brackets and zone, like `inet_pton`.
  package init?(_ text: String) {
    var ipv4 = in_addr()
    var ipv6 = in6_addr()
    if inet_pton(AF_INET, text, &ipv4) == 1 {
      self.init(ipv4: ipv4)
    } else if inet_pton(AF_INET6, text, &ipv6) == 1 {
      self.init(ipv6: ipv6)
    } else {
      return nil
    }
  }

  /// The address of a peer; ``loopback`` if it has none, as on a Unix socket.
  package init(_ peer: SocketAddress?) {
    switch peer {
    case .v4(let peer): self.init(ipv4: peer.address.sin_addr)
    case .v6(let peer): self.init(ipv6: peer.address.sin6_addr)
    case .unixDomainSocket, nil: self = .loopback
    }
  }

  package static let loopback = ClientAddress(bits: mapped | 0x7F00_0001)

  var isIPv4: Bool { bits >> 32 == Self.mapped >> 32 }

  /// The unit that limits count by: an IPv4 address or an IPv6 /64, since even a single customer gets a whole
  /// /64.
  package var source: ClientAddress { isIPv4 ? self : ClientAddress(bits: (bits >> 64) << 64) }

  private static let mapped: UInt128 = 0xFFFF << 32
}

extension ClientAddress: CustomStringConvertible {
  /// As usually written: `192.0.2.1`, `2001:db8::1`.
  package var description: String {
    if isIPv4 {
      let address = UInt32(truncatingIfNeeded: bits)
      return "\(address >> 24).\(address >> 16 & 255).\(address >> 8 & 255).\(address & 255)"
    }
    let bytes = (0..<16).map { UInt8(truncatingIfNeeded: bits >> (8 * (15 - $0))) }
    var text = [CChar](repeating: 0, count: Int(INET6_ADDRSTRLEN))
    inet_ntop(AF_INET6, bytes, &text, socklen_t(text.count))
    return String(decoding: text.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
  }
}

extension ClientAddress {
  /// A range of addresses in CIDR notation, `10.0.0.0/8` or `2001:db8::/32`, or a single address.
  package struct Network: Sendable, Hashable {
    private let base: ClientAddress
    private let mask: UInt128

    /// Parses CIDR notation.
    package init?(_ text: String) {
      let parts = text.utf8.split(
        separator: UInt8(ascii: "/"), maxSplits: 1, omittingEmptySubsequences: false)
      guard let address = ClientAddress(String(Substring(parts[0]))) else { return nil }
      // For an IPv6 spelling, also of a mapped IPv4 address, the length counts from the first of 128 bits.
      let isDotted = !parts[0].contains(UInt8(ascii: ":"))
      var length = 128
      if parts.count == 2 {
        guard parts[1].first != UInt8(ascii: "+"), let number = UInt8(Substring(parts[1])),
          number <= (isDotted ? 32 : 128)
        else { return nil }
        length = Int(number) + (isDotted ? 96 : 0)
      }
      mask = length == 0 ? 0 : UInt128.max << (128 - length)
      base = ClientAddress(bits: address.bits & mask)
    }

    /// Whether an address is in the network. IPv4 addresses are in no IPv6 network, not even in `::/0`.
    package func contains(_ address: ClientAddress) -> Bool {
      address.bits & mask == base.bits && address.isIPv4 == base.isIPv4
    }
  }
}
