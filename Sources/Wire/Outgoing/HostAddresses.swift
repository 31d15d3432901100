internal import Foundation
internal import NIOPosix

/// What the system's resolver says of a host.
enum HostAddresses {
  /// Every address of a name, or the address that it is, in the resolver's order; none if it has none.
  static func resolve(_ host: String) async -> [String] {
    (try? await NIOThreadPool.singleton.runIfActive { resolveBlocking(host) }) ?? []
  }

  private static func resolveBlocking(_ host: String) -> [String] {
    var hints = addrinfo()
    hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
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
