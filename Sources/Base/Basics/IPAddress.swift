import Foundation
import NIOCore

/// An IPv4 or IPv6 address as bytes in network order.
package struct IPAddress: Sendable, Hashable {
  /// 4 or 16 bytes.
  package let bytes: [UInt8]

  /// Parses dotted decimal, or IPv6 without brackets and zone, like `inet_pton`.
  package init?(_ text: String) {
    guard !text.utf8.contains(UInt8(ascii: "%")) else { return nil }
    switch try? SocketAddress(ipAddress: text, port: 0) {
    case .v4(let address): bytes = withUnsafeBytes(of: address.address.sin_addr) { Array($0) }
    case .v6(let address): bytes = withUnsafeBytes(of: address.address.sin6_addr) { Array($0) }
    case .unixDomainSocket, nil: return nil
    }
  }

  private init(bytes: [UInt8]) { self.bytes = bytes }

  /// The smallest network that one owner has: an IPv6 /64, named by its first address, or an IPv4 address (also one
  /// mapped into IPv6) by itself.
  package var network: IPAddress {
    guard isIPv6 else { return self }
    if Self.isMapped(bytes) { return IPAddress(bytes: Array(bytes[12...])) }
    return IPAddress(bytes: bytes.prefix(8) + [UInt8](repeating: 0, count: 8))
  }

  /// The canonical text, as `inet_ntop` writes it.
  package var text: String {
    (try? SocketAddress(packedIPAddress: ByteBuffer(bytes: bytes), port: 0))?.ipAddress ?? ""
  }

  package var isIPv6: Bool { bytes.count == 16 }

  /// Whether the address is on the public internet: not private, loopback, link-local, shared, multicast or
  /// reserved (IANA's special-purpose registries). For an IPv6 address that embeds an IPv4 one, that one
  /// counts.
  package var isPublic: Bool {
    isIPv6 ? Self.isPublicIPv6(bytes) : Self.isPublicIPv4(bytes)
  }

  private static func isPublicIPv4(_ bytes: [UInt8]) -> Bool {
    switch (bytes[0], bytes[1], bytes[2]) {
    case (0, _, _), (10, _, _), (127, _, _): false
    case (100, 64...127, _): false
    case (169, 254, _): false
    case (172, 16...31, _): false
    case (192, 0, 0), (192, 0, 2), (192, 88, 99), (192, 168, _): false
    case (198, 18...19, _), (198, 51, 100), (203, 0, 113): false
    case (224..., _, _): false
    default: true
    }
  }

  /// Whether an IPv6 address is `::ffff:a.b.c.d`.
  private static func isMapped(_ bytes: [UInt8]) -> Bool {
    bytes.starts(with: [UInt8](repeating: 0, count: 10) + [0xff, 0xff])
  }

  private static func isPublicIPv6(_ bytes: [UInt8]) -> Bool {
    if isMapped(bytes) { return isPublicIPv4(Array(bytes[12...])) }
    if bytes.starts(with: [0x00, 0x64, 0xff, 0x9b] + [UInt8](repeating: 0, count: 8)) {  // NAT64
      return isPublicIPv4(Array(bytes[12...]))
    }
    if bytes[0] == 0x20, bytes[1] == 0x02 { return isPublicIPv4(Array(bytes[2..<6])) }  // 6to4
    if bytes.starts(with: [0x20, 0x01, 0x0d, 0xb8]) { return false }  // documentation
    if bytes[0] == 0x20, bytes[1] == 0x01, bytes[2] < 0x02 { return false }  // protocol assignments, Teredo
    return bytes[0] & 0xe0 == 0x20  // 2000::/3: all that is assigned
  }
}
