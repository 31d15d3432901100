import Basics
import Foundation
package import NIOCore
package import NIOSSL

/// Looks up host names with the system's resolver.
package enum HostAddresses {
  private static let maximumNameBytes = 253

  private static let pool = LookupPool(limits: .init(threads: 16, perDomain: 4, perNew: 10)) { query($0) }

  /// The addresses of a name in the resolver's order, or the address itself; empty if there are none.
  ///
  /// - Throws: `CancellationError` as soon as the task is cancelled; ``LookupsExhausted``.
  package static func resolve(_ host: String) async throws -> [String] {
    try await resolve(host) { try await pool.addresses(of: $0) }
  }

  /// Like ``resolve(_:)``, but returns the previous addresses of a known name if the resolver does not answer
  /// at once.
  package static func resolvePresentOrFormer(_ host: String) async throws -> [String] {
    try await resolve(host) { try await pool.presentOrFormerAddresses(of: $0) }
  }

  private static func resolve(
    _ host: String, by lookUp: (String) async throws -> [String]
  ) async throws -> [String] {
    guard host.utf8.count <= maximumNameBytes, host.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7f }) else {
      return []
    }
    let address = query(host, flags: AI_NUMERICHOST)
    return address.isEmpty ? try await lookUp(host.lowercased()) : address
  }

  /// The addresses to try, in order: both families in turn, beginning with that of the first address; at most 16.
  package static func callable(
    _ addresses: [String], where isAllowed: (String) -> Bool
  ) throws(OutgoingClient.HostError) -> [String] {
    guard !addresses.isEmpty else { throw .unknownHost }
    // One forbidden address rejects the name: a public host has none.
    guard addresses.allSatisfy(isAllowed) else { throw .forbiddenAddress }
    let first = addresses.filter { $0.contains(":") == addresses[0].contains(":") }
    let second = addresses.filter { $0.contains(":") != addresses[0].contains(":") }
    let turns = (0..<max(first.count, second.count)).flatMap { index in
      [first, second].compactMap { index < $0.count ? $0[index] : nil }
    }
    return Array(turns.prefix(16))
  }

  private static func query(_ host: String, flags: Int32 = 0) -> [String] {
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

// A DNS name in the certificate proves a host name, and an IP address in it proves an address. swift-nio-ssl
// also accepts a certificate with the peer's IP address as proof of any name. Anybody can get one, and with a
// forged DNS answer it would pass for the host, so each client checks the name here as well.

extension NIOSSLCertificate {
  /// Whether it names the host among its alternative names: a DNS name according to RFC 9525 section 6.3,
  /// with `*` only as a whole first label; an address byte by byte. Ignores the subject's common name.
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

  /// The labels of a name in lower case, without a final dot.
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
  /// A TLS handler that sends nothing until the certificate has proven the host's name or address.
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
  /// Closes the connection without reading on. TLS sends its close_notify but does not wait for the peer's,
  /// because it would read until then.
  package func closeAtOnce(promise: EventLoopPromise<Void>? = nil) {
    if let promise { channel.closeFuture.cascade(to: promise) }
    let tls = try? pipeline.syncOperations.context(handlerType: NIOSSLClientHandler.self)
    close(promise: nil)
    tls?.close(promise: nil)
  }
}
