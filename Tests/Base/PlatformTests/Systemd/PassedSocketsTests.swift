import Foundation
import Testing

@testable import Basics
@testable import Platform

@Suite struct PassedSocketsTests {
  private func environment(_ count: String, names: String? = nil, process: pid_t = 7) -> [String: String] {
    var environment = ["LISTEN_PID": "\(process)", "LISTEN_FDS": count]
    environment["LISTEN_FDNAMES"] = names
    return environment
  }

  /// Two descriptors that follow each other, of these sockets.
  private func with<Result>(_ sockets: [CInt], _ test: (_ first: CInt) throws -> Result) rethrows -> Result {
    defer { for socket in sockets { close(socket) } }
    let first = fcntl(0, F_DUPFD, 500)
    close(first)
    for (offset, socket) in sockets.enumerated() { dup2(socket, first + CInt(offset)) }
    defer { for offset in sockets.indices { close(first + CInt(offset)) } }
    return try test(first)
  }

  private func listener(_ family: CInt = AF_INET, listens: Bool = true) -> CInt {
    let descriptor = socket(family, CInt(SOCK_STREAM.rawValue), 0)
    if listens { #expect(listen(descriptor, 1) == 0) }
    return descriptor
  }

  @Test func `Names say which is which`() {
    with([listener(), listener(AF_INET6)]) { first in
      func take(_ count: String, _ names: String?) -> [CInt?]? {
        let sockets = try? PassedSockets(
          environment: environment(count, names: names), processID: 7, first: first)
        return sockets.map { [$0.public, $0.admin] }
      }
      #expect(take("2", "admin:public") == [first + 1, first])
      #expect(take("1", "admin") == [nil, first])
      #expect(take("1", "public") == [first, nil])
      #expect(take("2", nil) == [first, first + 1])
      #expect(take("1", nil) == [first, nil])
      // A unit without FileDescriptorName= passes its own name for each.
      #expect(take("2", "push-bouncer.socket:push-bouncer.socket") == [first, first + 1])
      #expect(take("0", nil) == [nil, nil])
    }
  }

  @Test func `Where one listens is told as systemd writes it`() throws {
    for (family, host) in [(AF_INET, "0.0.0.0"), (AF_INET6, "[::]")] {
      let descriptor = listener(family)
      defer { close(descriptor) }
      let address = PassedSockets.address(of: descriptor)
      let port = address.split(separator: ":").last.flatMap { Int($0) }
      #expect(try address == "\(host):\(#require(port))" && port != 0)
    }
  }

  @Test func `What is for another process is left`() throws {
    #expect(try PassedSockets(environment: environment("1", process: 8), processID: 7) == PassedSockets())
    #expect(try PassedSockets(environment: ["LISTEN_FDS": "1"], processID: 7) == PassedSockets())
    #expect(try PassedSockets(environment: [:], processID: 7) == PassedSockets())
  }

  @Test(arguments: [
    "public:public", "public:other", "other", "public", "a.socket:b.socket", "publi\u{301}c:admin",
  ])
  func `Other names are refused`(_ names: String) {
    let sockets = with([listener(), listener()]) { first in
      try? PassedSockets(environment: environment("2", names: names), processID: 7, first: first)
    }
    #expect(sockets == nil)
  }

  @Test(arguments: ["3", "-1", "x", "", "9999999999999999999999"]) func `Odd counts are refused`(
    _ count: String
  ) {
    #expect(throws: Fault.self) {
      try PassedSockets(environment: environment(count), processID: 7)
    }
  }

  @Test func `What does not listen is refused`() {
    func problem(_ descriptor: CInt) -> String {
      with([descriptor]) { first in
        do {
          _ = try PassedSockets(environment: environment("1"), processID: 7, first: first)
          return ""
        } catch {
          return "\(error)"
        }
      }
    }
    #expect(problem(listener(listens: false)).contains("does not listen"))
    #expect(problem(socket(AF_INET, CInt(SOCK_DGRAM.rawValue), 0)).contains("no TCP socket"))
    #expect(problem(socket(AF_UNIX, CInt(SOCK_STREAM.rawValue), 0)).contains("no TCP socket"))
    #expect(problem(open("/dev/null", O_RDONLY)).contains("is no socket"))
  }
}
