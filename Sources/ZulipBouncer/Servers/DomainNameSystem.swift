internal import Foundation
internal import Wire

/// As much of a resolver as tells whether a domain takes mail: one question at a time over UDP to the
/// servers of `/etc/resolv.conf` (RFC 1035). `getaddrinfo` cannot ask for MX records, and Glibc's
/// module gives Swift no `res_query`.
struct DomainNameSystem: Sendable {
  /// Record types that are asked for.
  enum RecordType: UInt16 {
    case a = 1
    case mailExchange = 15
    case aaaa = 28
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
    let servers: [String]
    let timeout: TimeInterval
  }

  private static let pool = LookupPool<Query, Answer?>(
    threads: 6, domainShare: 2, newShare: 4, name: \.name, isGood: { $0 != nil }, ask: { ask($0) })

  let servers: [String]
  let timeout: TimeInterval

  /// The system's servers, which have this many seconds to answer, in turn.
  init(timeout: TimeInterval = 3) {
    let file = (try? String(contentsOfFile: "/etc/resolv.conf", encoding: .utf8)) ?? ""
    self.init(servers: Self.servers(in: file), timeout: timeout)
  }

  init(servers: [String], timeout: TimeInterval) {
    self.servers = servers
    self.timeout = timeout
  }

  /// The name servers that a `resolv.conf` lists; this host where it lists none.
  static func servers(in file: String) -> [String] {
    let listed = file.split(whereSeparator: \.isNewline).compactMap { line -> String? in
      let words = line.split(whereSeparator: \.isWhitespace)
      return words.count >= 2 && words[0] == "nameserver" ? String(words[1]) : nil
    }
    return listed.isEmpty ? ["127.0.0.1"] : Array(listed.prefix(3))
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

  private func ask(_ name: String, _ type: RecordType) async -> Answer? {
    let query = Query(name: name, type: type, servers: servers, timeout: timeout)
    return await Self.pool.answer(to: query, within: .seconds(timeout)) ?? nil
  }

  private static func ask(_ query: Query) -> Answer? {
    guard let question = question(query.name, query.type, id: .random(in: 0 ... .max)) else {
      return .noSuchName
    }
    for server in query.servers {
      if let reply = exchange(question, with: server, timeout: query.timeout / Double(query.servers.count)),
        let answer = answer(reply, to: question, query.type)
      {
        return answer
      }
    }
    return nil
  }

  /// A query message; nil if the name is none.
  static func question(_ name: String, _ type: RecordType, id: UInt16) -> [UInt8]? {
    let labels = name.utf8.split(separator: UInt8(ascii: "."))
    guard name.utf8.count <= 253, labels.allSatisfy({ (1...63).contains($0.count) }) else { return nil }
    var message: [UInt8] = [UInt8(id >> 8), UInt8(truncatingIfNeeded: id)]
    message += [0x01, 0x00, 0, 1, 0, 0, 0, 0, 0, 0]  // recursion desired; one question
    for label in labels { message += [UInt8(label.count)] + label }
    return message + [0, UInt8(type.rawValue >> 8), UInt8(truncatingIfNeeded: type.rawValue), 0, 1]
  }

  /// Counts the records of the asked type in a reply; nil if it is no reply to this question, or
  /// the server failed. A reply cut short still counts: that there are records is all that matters.
  static func answer(_ reply: [UInt8], to question: [UInt8], _ type: RecordType) -> Answer? {
    guard reply.count >= question.count, reply[0..<2] == question[0..<2], reply[2] & 0x80 != 0,
      reply[12..<question.count] == question[12...]
    else { return nil }
    switch reply[3] & 0x0f {
    case 0: break
    case 3: return .noSuchName
    default: return nil
    }
    var records = 0
    var index = question.count
    for _ in 0..<(Int(reply[6]) << 8 | Int(reply[7])) {
      guard let end = endOfName(reply, index), end + 10 <= reply.count else { break }
      if UInt16(reply[end]) << 8 | UInt16(reply[end + 1]) == type.rawValue { records += 1 }
      index = end + 10 + (Int(reply[end + 8]) << 8 | Int(reply[end + 9]))
    }
    return .records(records)
  }

  private static func endOfName(_ message: [UInt8], _ start: Int) -> Int? {
    var index = start
    while index < message.count {
      let length = message[index]
      if length == 0 { return index + 1 }
      if length & 0xc0 == 0xc0 { return index + 2 }
      index += 1 + Int(length)
    }
    return nil
  }

  /// Sends one datagram and waits for one. Blocks, so it runs on a thread of the pool.
  private static func exchange(_ question: [UInt8], with server: String, timeout: TimeInterval) -> [UInt8]? {
    var hints = addrinfo()
    hints.ai_flags = AI_NUMERICHOST
    hints.ai_socktype = Int32(SOCK_DGRAM.rawValue)
    var list: UnsafeMutablePointer<addrinfo>?
    guard getaddrinfo(server, "53", &hints, &list) == 0, let address = list else { return nil }
    defer { freeaddrinfo(list) }
    let socket = socket(address.pointee.ai_family, Int32(SOCK_DGRAM.rawValue), 0)
    guard socket >= 0 else { return nil }
    defer { close(socket) }
    // Connected, so the kernel drops what does not come from that server.
    guard connect(socket, address.pointee.ai_addr, address.pointee.ai_addrlen) == 0,
      send(socket, question, question.count, 0) == question.count
    else { return nil }
    var waiting = pollfd(fd: socket, events: Int16(POLLIN), revents: 0)
    guard poll(&waiting, 1, Int32(timeout * 1000)) == 1 else { return nil }
    var reply = [UInt8](repeating: 0, count: 4096)
    let count = recv(socket, &reply, reply.count, 0)
    return count >= question.count ? Array(reply.prefix(count)) : nil
  }
}
