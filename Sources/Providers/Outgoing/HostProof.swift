package import NIOCore
package import NIOSSL

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
