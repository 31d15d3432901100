internal import Foundation

/// An IPv4 or IPv6 address as bytes in network order.
package struct IPAddress: Sendable, Hashable {
  /// 4 or 16 bytes.
  package let bytes: [UInt8]

  /// Reads an address as `inet_pton` does: dotted decimal, or IPv6 without brackets and zone.
  package init?(_ text: String) {
    var ipv4 = in_addr()
    var ipv6 = in6_addr()
    if inet_pton(AF_INET, text, &ipv4) == 1 {
      bytes = withUnsafeBytes(of: ipv4) { Array($0) }
    } else if inet_pton(AF_INET6, text, &ipv6) == 1 {
      bytes = withUnsafeBytes(of: ipv6) { Array($0) }
    } else {
      return nil
    }
  }

  private init(bytes: [UInt8]) { self.bytes = bytes }

  /// What its owner has at least: of IPv6 the network of 64 bits, as its first address; an IPv4 address that is wrapped
  /// into an IPv6 one, by itself.
  package var network: IPAddress {
    guard isIPv6 else { return self }
    if Self.isMapped(bytes) { return IPAddress(bytes: Array(bytes[12...])) }
    return IPAddress(bytes: bytes.prefix(8) + [UInt8](repeating: 0, count: 8))
  }

  /// As `inet_ntop` writes it: one text for one address.
  package var text: String {
    var text = [CChar](repeating: 0, count: Int(INET6_ADDRSTRLEN))
    bytes.withUnsafeBytes { bytes in
      _ = inet_ntop(isIPv6 ? AF_INET6 : AF_INET, bytes.baseAddress, &text, socklen_t(text.count))
    }
    return String(decoding: text.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
  }

  /// Whether it is an IPv6 address.
  package var isIPv6: Bool { bytes.count == 16 }

  /// Whether the address may lie anywhere in the public internet: neither private, loopback,
  /// link-local, shared, multicast nor reserved (IANA's special-purpose registries). An IPv6
  /// address that wraps an IPv4 one is what that one is.
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
    return bytes[0] & 0xe0 == 0x20  // 2000::/3: all that is given out
  }
}
