internal import Foundation
package import NIOCore
package import NIOSSL

/// What the system's resolver says of a host.
package enum HostAddresses {
  private static let maximumNameBytes = 253

  private static let pool = LookupPool(limits: .init(threads: 16, perDomain: 4, perNew: 10)) { ask($0) }

  /// Every address of a name, or the address that it is, in the resolver's order; none if it has none.
  ///
  /// - Throws: `CancellationError` as soon as the task is cancelled; ``LookupsExhausted``.
  package static func resolve(_ host: String) async throws -> [String] {
    try await resolve(host) { try await pool.addresses(of: $0) }
  }

  /// The same; of a name that does not answer at once and has answered before, the addresses of then.
  static func resolvePresentOrFormer(_ host: String) async throws -> [String] {
    try await resolve(host) { try await pool.presentOrFormerAddresses(of: $0) }
  }

  private static func resolve(
    _ host: String, by lookUp: (String) async throws -> [String]
  ) async throws -> [String] {
    guard host.utf8.count <= maximumNameBytes, host.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7f }) else {
      return []
    }
    let address = ask(host, flags: AI_NUMERICHOST)
    return address.isEmpty ? try await lookUp(host.lowercased()) : address
  }

  /// Those of a name's addresses that a connection is tried to.
  static func callable(
    _ addresses: [String], where isAllowed: (String) -> Bool
  ) throws(OutgoingClient.Refusal) -> [String] {
    guard !addresses.isEmpty else { throw .unknownHost }
    // One forbidden address spoils a name: a public host has none.
    guard addresses.allSatisfy(isAllowed) else { throw .forbiddenAddress }
    return Array(addresses.prefix(3))
  }

  private static func ask(_ host: String, flags: Int32 = 0) -> [String] {
    var hints = addrinfo()
    hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
    hints.ai_flags = flags
    var list: UnsafeMutablePointer<addrinfo>?
    guard getaddrinfo(host, nil, &hints, &list) == 0 else { return [] }
    defer { freeaddrinfo(list) }
    return sequence(first: list, next: { $0?.pointee.ai_next }).compactMap { entry in
      guard let entry else { return nil }
      var text = [CChar](repeating: 0, count: Int(NI_MAXHOST))
      let status = getnameinfo(
        entry.pointee.ai_addr, entry.pointee.ai_addrlen, &text, socklen_t(text.count), nil, 0, NI_NUMERICHOST)
      guard status == 0 else { return nil }
      return String(decoding: text.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
    }
  }
}

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

// A host name is proven by a DNS name in the certificate, an address by an address. swift-nio-ssl also takes a
// certificate with the IP address of the peer for a proof of any name: with such a one, which anybody can have, and a
// forged answer of a name server somebody else would pass for the host. So each client asks here as well.

extension NIOSSLCertificate {
  /// Whether it names a host among its alternative names: a name as RFC 9525 section 6.3 has it, with `*` for nothing but
  /// a whole first label; an address byte by byte. The subject's common name says nothing.
  ///
  /// - Parameter host: a name in ASCII, or an address without brackets.
  package func proves(_ host: String) -> Bool {
    let names = _subjectAlternativeNames()
    if let address = IPAddress(host) {
      return names.contains { $0.nameType == .ipAddress && $0.contents.elementsEqual(address.bytes) }
    }
    let labels = Self.labels(host.utf8)
    return names.contains { name in
      guard name.nameType == .dnsName else { return false }
      let pattern = Self.labels(name.contents)
      guard pattern.count == labels.count, pattern.dropFirst() == labels.dropFirst() else { return false }
      return pattern.first == labels.first || (pattern.count > 2 && pattern.first == [UInt8(ascii: "*")])
    }
  }

  /// In lower case, without a final dot.
  private static func labels(_ name: some Sequence<UInt8>) -> [[UInt8]] {
    var labels = [[UInt8]()]
    for byte in name {
      switch byte {
      case UInt8(ascii: "."): labels.append([])
      case UInt8(ascii: "A")...UInt8(ascii: "Z"): labels[labels.count - 1].append(byte | 0x20)
      default: labels[labels.count - 1].append(byte)
      }
    }
    if labels.count > 1, labels.last == [] { labels.removeLast() }
    return labels
  }
}

extension NIOSSLClientHandler {
  /// TLS with a host that has to prove its name, or its address, before anything is sent.
  package static func proving(_ host: String, context: NIOSSLContext) throws -> NIOSSLClientHandler {
    // An address is not a server name (RFC 6066 section 3).
    try _makeSSLClientHandler(context: context, serverHostname: IPAddress(host) == nil ? host : nil) {
      certificate, channel in
      guard certificate.proves(host) else {
        return channel.eventLoop.makeFailedFuture(NIOSSLExtraError.failedToValidateHostname)
      }
      return channel.eventLoop.makeSucceededVoidFuture()
    }
  }
}

extension ChannelHandlerContext {
  /// Closes the connection now, so that nothing more is read. TLS says goodbye, but does not wait until the peer does: it
  /// would read on for as long.
  package func closeAtOnce(promise: EventLoopPromise<Void>? = nil) {
    if let promise { channel.closeFuture.cascade(to: promise) }
    let tls = try? pipeline.syncOperations.context(handlerType: NIOSSLClientHandler.self)
    close(promise: nil)
    tls?.close(promise: nil)
  }
}
