import Foundation
package import NIOCore

/// The address of a client, independent of its spelling: `::ffff:192.0.2.1`, as a listener on `::` sees an
/// IPv4 client, equals `192.0.2.1`.
package struct ClientAddress: Sendable, Hashable {
  /// The 128 bits of an IPv6 address; an IPv4 address is mapped into IPv6.
  let bits: UInt128

  private init(bits: UInt128) { self.bits = bits }

  /// Parses dotted decimal, or IPv6 without brackets and zone, like `inet_pton`.
  package init?(_ text: String) {
    guard !text.utf8.contains(UInt8(ascii: "%")), let peer = try? SocketAddress(ipAddress: text, port: 0)
    else { return nil }
    self.init(peer)
  }

  /// The address of a peer; ``loopback`` if it has none, as on a Unix socket.
  package init(_ peer: SocketAddress?) {
    switch peer {
    case .v4(let peer): bits = Self.mapped | UInt128(UInt32(bigEndian: peer.address.sin_addr.s_addr))
    case .v6(let peer):
      bits = withUnsafeBytes(of: peer.address.sin6_addr) { $0.reduce(0) { $0 << 8 | UInt128($1) } }
    case .unixDomainSocket, nil: self = .loopback
    }
  }

  package static let loopback = ClientAddress(bits: mapped | 0x7F00_0001)

  var isIPv4: Bool { bits >> 32 == Self.mapped >> 32 }

  /// The unit that limits count by: an IPv4 address or an IPv6 /64, since even a single customer gets a whole
  /// /64.
  package var source: ClientAddress { isIPv4 ? self : ClientAddress(bits: (bits >> 64) << 64) }

  /// What is given to one customer at most: an IPv4 address, or an IPv6 /48.
  package var network: ClientAddress { isIPv4 ? self : ClientAddress(bits: (bits >> 80) << 80) }

  private static let mapped: UInt128 = 0xFFFF << 32
}

extension ClientAddress: CustomStringConvertible {
  /// As usually written: `192.0.2.1`, `2001:db8::1`.
  package var description: String {
    let packed =
      isIPv4 ? ByteBuffer(integer: UInt32(truncatingIfNeeded: bits)) : ByteBuffer(integer: bits)
    return (try? SocketAddress(packedIPAddress: packed, port: 0))?.ipAddress ?? ""
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

extension ClientAddress {
  /// Whether it is an address of this machine alone.
  package static func isLoopback(_ host: String) -> Bool {
    if host == "localhost" { return true }
    let loopback = ["127.0.0.0/8", "::1"].compactMap(ClientAddress.Network.init)
    return ClientAddress(host).map { address in loopback.contains { $0.contains(address) } } ?? false
  }
}
