internal import Foundation
internal import NIOPosix
internal import Registrations

/// The address of a host whose name comes from outside.
enum PublicAddress {
  /// An address of the host that may be called, if it has one.
  static func resolve(_ host: String, allowPrivate: Bool) async -> String? {
    let addresses: [String]
    if IPAddress(host) != nil {
      addresses = [host]
    } else {
      addresses = (try? await NIOThreadPool.singleton.runIfActive { Self.addresses(of: host) }) ?? []
    }
    // One private address spoils a name: a public host has none.
    guard let first = addresses.first,
      allowPrivate || addresses.allSatisfy({ IPAddress($0)?.isPublic == true })
    else { return nil }
    return first
  }

  /// Every address of a name. Blocks, so it runs on a thread of the pool.
  private static func addresses(of host: String) -> [String] {
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
