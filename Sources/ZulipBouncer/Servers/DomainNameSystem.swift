internal import CResolv
internal import Foundation
internal import Outgoing
internal import Wire

/// As much of a resolver as tells whether a domain takes mail: the system's, asked for MX records, which
/// `getaddrinfo` cannot be.
struct DomainNameSystem: Sendable {
  /// Record types that are asked for.
  enum RecordType: Hashable, Sendable {
    case a, aaaa, mailExchange

    fileprivate var number: UInt16 {
      switch self {
      case .a: UInt16(ns_t_a.rawValue)
      case .aaaa: UInt16(ns_t_aaaa.rawValue)
      case .mailExchange: UInt16(ns_t_mx.rawValue)
      }
    }
  }

  /// What an answer says.
  enum Answer: Sendable, Hashable {
    case records(Int)
    case noSuchName
  }

  /// What the threads ask.
  private struct Query: Hashable, Sendable {
    let name: String
    let type: RecordType
    let port: UInt16?
    let seconds: Int32
  }

  private static let pool = LookupPool<Query, Answer?>(
    threads: 6, domainShare: 2, newShare: 4, name: \.name, isGood: { $0 != nil }, ask: { ask($0) })

  /// Instead of the servers of `/etc/resolv.conf` one on this host, for tests.
  private let port: UInt16?
  /// How long servers may take to answer.
  private let seconds: Int32

  init(port: UInt16? = nil, seconds: Int32 = 3) {
    self.port = port
    self.seconds = seconds
  }

  /// Where a domain's mail goes.
  func mailExchange(of domain: String) async -> MailExchange {
    var isThere = false
    for type in [RecordType.mailExchange, .a, .aaaa] {
      switch await ask(domain, type) {
      case .records(let count) where count > 0: return type == .mailExchange ? .found : .none
      case .records: isThere = true
      case .noSuchName: return .noSuchDomain
      case nil: return .unknown
      }
    }
    // The name exists without any of these records: no mail reaches it.
    return isThere ? .noSuchDomain : .unknown
  }

  /// nil if nobody has answered in time.
  private func ask(_ name: String, _ type: RecordType) async -> Answer? {
    let query = Query(name: name, type: type, port: port, seconds: seconds)
    return await Self.pool.answer(to: query, within: .seconds(Int(seconds))) ?? nil
  }

  /// Blocks, so it runs on a thread of the pool.
  private static func ask(_ query: Query) -> Answer? {
    var resolver = res_state.Pointee()
    guard __res_ninit(&resolver) == 0 else { return nil }
    defer { __res_nclose(&resolver) }
    if let port = query.port {
      resolver.nscount = 1
      resolver.nsaddr_list.0 = sockaddr_in(
        sin_family: sa_family_t(AF_INET), sin_port: port.bigEndian,
        sin_addr: in_addr(s_addr: UInt32(0x7f00_0001).bigEndian), sin_zero: (0, 0, 0, 0, 0, 0, 0, 0))
    }
    // Each server once, in turn, and over UDP alone: nothing that could block longer.
    resolver.retrans = max(1, query.seconds / max(1, resolver.nscount))
    resolver.retry = 1
    resolver.options = (resolver.options | UInt(RES_IGNTC)) & ~UInt(RES_USEVC)
    var reply = [UInt8](repeating: 0, count: 4096)
    let length = res_nquery(
      &resolver, query.name, Int32(ns_c_in.rawValue), Int32(query.type.number), &reply, Int32(reply.count))
    // Cut short: there were more records than fit.
    guard reply[2] & 0x02 == 0 else { return .records(1) }
    guard length < 0 else { return .records(count(query.type, in: reply.prefix(Int(length)))) }
    switch resolver.res_h_errno {
    case HOST_NOT_FOUND: return .noSuchName
    case NO_DATA: return .records(0)
    default: return nil
    }
  }

  /// How many records of a type a reply has; none if it is no reply.
  static func count(_ type: RecordType, in reply: ArraySlice<UInt8>) -> Int {
    reply.withUnsafeBufferPointer { bytes in
      var message = ns_msg()
      guard ns_initparse(bytes.baseAddress, Int32(bytes.count), &message) == 0 else { return 0 }
      var count = 0
      var record = ns_rr()
      for index in 0..<Int32(message._counts.1) {
        guard ns_parserr(&message, ns_s_an, index, &record) == 0 else { break }
        if record.type == type.number { count += 1 }
      }
      return count
    }
  }
}
