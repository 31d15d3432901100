import Foundation
import SQL
import Testing

/// Why a server cannot be used, told apart whatever language it speaks.
@Suite struct ObstacleTests {
  private func error(_ url: String) async -> DatabaseError? {
    await #expect(throws: DatabaseError.self) {
      _ = try await openDatabase(url: try DatabaseURL(url))
    }
  }

  @Test(arguments: [
    ("postgres://u:hunter2@127.0.0.1:1/d", DatabaseError.Code.unreachable, "nobody answers at 127.0.0.1:1"),
    ("postgres://u:hunter2@nosuch.invalid/d", .unknownHost, "there is no host nosuch.invalid"),
    ("postgres:///d?host=/nowhere", .unreachable, "nobody listens on the socket /nowhere/.s.PGSQL.5432"),
  ])
  func `Nobody is there`(_ url: String, _ code: DatabaseError.Code, _ message: String) async {
    let error = await error(url)
    #expect(error?.code == code && error?.message == message, "\(String(describing: error))")
  }

  @Test(arguments: [
    ("28P01", DatabaseError.Code.notAdmitted, "password of u"), ("28000", .notAdmitted, "does not let u in"),
    ("3D000", .noDatabase, "no database d"), ("57P03", .unreachable, "is starting or stopping"),
    ("53300", .busy, "as many connections as it may have"), ("XX000", .unreachable, "SQLSTATE XX000"),
  ])
  func `A server's refusal is told by its code`(
    _ state: String, _ code: DatabaseError.Code, _ says: String
  ) async throws {
    let server = try RefusingServer(state: state)
    defer { server.stop() }
    let error = await error("postgres://u:hunter2@127.0.0.1:\(server.port)/d")
    #expect(error?.code == code && error?.message.contains(says) == true, "\(String(describing: error))")
    #expect(error?.message.contains("hunter2") == false && error?.message.contains("verweigert") == false)
  }

  @Test func `A server without TLS is told from one that is away`() async throws {
    let server = try RefusingServer(state: "28000")
    defer { server.stop() }
    let error = await error("postgres://u@127.0.0.1:\(server.port)/d?sslmode=require")
    #expect(error?.code == .insecure)
    #expect(error?.message == "the server at 127.0.0.1:\(server.port) does not speak TLS")
  }
}

/// Speaks as much of PostgreSQL's protocol as it takes to refuse everybody, in another language.
private final class RefusingServer: Sendable {
  let port: Int
  private let listener: CInt

  init(state: String) throws {
    let listener = socket(AF_INET, CInt(SOCK_STREAM.rawValue), 0)
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_addr.s_addr = inet_addr("127.0.0.1")
    var size = socklen_t(MemoryLayout<sockaddr_in>.size)
    let isListening = withUnsafeMutablePointer(to: &address) { address in
      address.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        bind(listener, $0, size) == 0 && listen(listener, 64) == 0 && getsockname(listener, $0, &size) == 0
      }
    }
    try #require(isListening)
    port = Int(UInt16(bigEndian: address.sin_port))
    self.listener = listener
    Thread.detachNewThread {
      while true {
        let connection = accept(listener, nil, nil)
        guard connection >= 0 else { return }
        Self.refuse(connection, state)
        close(connection)
      }
    }
  }

  func stop() {
    shutdown(listener, CInt(SHUT_RDWR))
    close(listener)
  }

  private static func refuse(_ connection: CInt, _ state: String) {
    var bytes = [UInt8](repeating: 0, count: 1024)
    // Requests for encryption come first, each of eight bytes.
    while true {
      let count = recv(connection, &bytes, bytes.count, 0)
      guard count > 0 else { return }
      guard count == 8 else { break }
      send(connection, "N", 1, CInt(MSG_NOSIGNAL))
    }
    let fields = "SFATAL\0VFATAL\0C\(state)\0Mverweigert\0\0"
    let length = UInt32(4 + fields.utf8.count).bigEndian
    let message = [UInt8(ascii: "E")] + withUnsafeBytes(of: length) { Array($0) } + Array(fields.utf8)
    send(connection, message, message.count, CInt(MSG_NOSIGNAL))
  }
}
