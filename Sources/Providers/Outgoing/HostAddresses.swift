internal import Foundation

/// What the system's resolver says of a host.
package enum HostAddresses {
  private static let maximumNameBytes = 253

  /// Every address of each name, in the resolver's order.
  private static let pool = LookupPool<String, [String]>(
    threads: 16, domainShare: 4, newShare: 10, name: { $0 }, isGood: { !$0.isEmpty },
    ask: { ask($0) })

  /// Every address of a name, or the address that it is, in the resolver's order; none if it has none.
  ///
  /// - Throws: `CancellationError` as soon as the task is cancelled; ``LookupsExhausted``.
  package static func resolve(_ host: String) async throws -> [String] {
    guard host.utf8.count <= maximumNameBytes, host.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7f }) else {
      return []
    }
    let address = ask(host, flags: AI_NUMERICHOST)
    guard address.isEmpty else { return address }
    return try await pool.answer(to: host.lowercased())
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
