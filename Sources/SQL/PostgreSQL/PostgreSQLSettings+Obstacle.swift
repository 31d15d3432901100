import CPostgreSQL
import Dispatch
import Foundation
import Glibc

extension PostgreSQLSettings {
  /// Why there is no connection, found by trying once more. libpq's own words are not kept: they are in whatever
  /// language the server speaks, and name no cause that could be told from another.
  func obstacle() async -> DatabaseError {
    await withCheckedContinuation { continuation in
      DispatchQueue(label: "PostgreSQL obstacle").async { continuation.resume(returning: blockingObstacle()) }
    }
  }

  private func blockingObstacle() -> DatabaseError {
    // Closed before the server is asked in other ways: one that serves few would keep those waiting.
    let (server, refusal) = attempt()
    guard let server else {
      return DatabaseError(.connectionLost, "the server is there again after it was away")
    }
    return refusal ?? server.unanswered
  }

  /// Tries to connect: with whom, which is nil if that goes well, and what the server has said against it.
  private func attempt() -> (server: Server?, refusal: DatabaseError?) {
    guard let handle = connect() else { return (nil, nil) }
    defer { PQfinish(handle) }
    guard PQstatus(handle) != CONNECTION_OK else { return (nil, nil) }
    // Only a connection that was told so beforehand gives the server's SQLSTATE.
    PQsetErrorVerbosity(handle, PQERRORS_SQLSTATE)
    PQreset(handle)
    let server = Server(
      host: Self.text(PQhost(handle)), port: Self.text(PQport(handle)), user: Self.text(PQuser(handle)),
      database: Self.text(PQdb(handle)))
    let state = Self.state(in: Self.text(PQerrorMessage(handle)))
    return (server, state.map { server.refusal($0, isPasswordUsed: PQconnectionUsedPassword(handle) == 1) })
  }

  /// The SQLSTATE that the last line with one ends with.
  private static func state(in message: String) -> String? {
    message.split(whereSeparator: \.isNewline).compactMap { line -> String? in
      let state = line.suffix(5)
      let isState = state.utf8.allSatisfy { (48...57).contains($0) || (65...90).contains($0) }
      return isState && line.dropLast(5).hasSuffix(":  ") ? String(state) : nil
    }.last
  }

  private static func text(_ text: UnsafePointer<CChar>?) -> String { text.map { String(cString: $0) } ?? "" }

  /// Whom the connection was meant for.
  private struct Server {
    let host: String
    let port: String
    let user: String
    let database: String

    private var isSocket: Bool { host.hasPrefix("/") }
    private var place: String { isSocket ? "\(host)/.s.PGSQL.\(port)" : "\(host):\(port)" }

    /// What the server has said.
    func refusal(_ state: String, isPasswordUsed: Bool) -> DatabaseError {
      switch state {
      case "28P01":
        DatabaseError(
          .notAdmitted,
          isPasswordUsed ? "the password of \(user) is wrong" : "the server wants a password of \(user)")
      case "28000":
        DatabaseError(
          .notAdmitted, "the server does not let \(user) in: there is no such role, or pg_hba.conf forbids it"
        )
      case "3D000": DatabaseError(.noDatabase, "the server has no database \(database)")
      case "42501": DatabaseError(.notAdmitted, "\(user) may not connect to the database \(database)")
      case "53300": DatabaseError(.busy, "the server has as many connections as it may have")
      case "57P03": DatabaseError(.unreachable, "the server at \(place) is starting or stopping")
      default:
        DatabaseError(.unreachable, "the server at \(place) refuses the connection (SQLSTATE \(state))")
      }
    }

    /// Why it has not come to that.
    var unanswered: DatabaseError {
      if isSocket { return DatabaseError(.unreachable, "nobody listens on the socket \(place)") }
      var hints = addrinfo()
      hints.ai_socktype = CInt(SOCK_STREAM.rawValue)
      var addresses: UnsafeMutablePointer<addrinfo>?
      guard getaddrinfo(host, port, &hints, &addresses) == 0 else {
        return DatabaseError(.unknownHost, "there is no host \(host)")
      }
      defer { freeaddrinfo(addresses) }
      var isThere = false
      for address in sequence(first: addresses, next: { $0?.pointee.ai_next }).compactMap(\.self) {
        switch Self.speaksTLS(address.pointee) {
        case nil: continue
        case false?: return DatabaseError(.insecure, "the server at \(place) does not speak TLS")
        case true?: isThere = true
        }
      }
      return isThere
        ? DatabaseError(.insecure, "the certificate of the server at \(place) is not trusted")
        : DatabaseError(.unreachable, "nobody answers at \(place)")
    }

    /// Asks as a client does that wants TLS (SSLRequest); nil if nobody answers.
    private static func speaksTLS(_ address: addrinfo) -> Bool? {
      let descriptor = socket(address.ai_family, address.ai_socktype | CInt(SOCK_CLOEXEC.rawValue), 0)
      guard descriptor >= 0 else { return nil }
      defer { close(descriptor) }
      // Both hold for connecting, too.
      var limit = timeval(tv_sec: 3, tv_usec: 0)
      for direction in [SO_SNDTIMEO, SO_RCVTIMEO] {
        setsockopt(descriptor, SOL_SOCKET, direction, &limit, socklen_t(MemoryLayout<timeval>.size))
      }
      guard Glibc.connect(descriptor, address.ai_addr, address.ai_addrlen) == 0 else { return nil }
      let request: [UInt8] = [0, 0, 0, 8, 0x04, 0xD2, 0x16, 0x2F]
      guard send(descriptor, request, request.count, CInt(MSG_NOSIGNAL)) == request.count else {
        return nil
      }
      var answer: UInt8 = 0
      guard recv(descriptor, &answer, 1, 0) == 1 else { return nil }
      return answer == UInt8(ascii: "S")
    }
  }
}
