import Foundation
import NIOCore
import TestSupport

/// Strangers with many addresses, who open connections and send incomplete data that keeps them open.
actor Crowd {
  /// A stranger's use of a connection.
  enum Habit: String, CaseIterable, Sendable {
    case idle
    /// Sends a request bit by bit.
    case slow
    /// Begins with TLS and goes no further.
    case halfOpen

    var first: [UInt8] {
      switch self {
      case .idle: []
      case .slow:
        Array(
          "POST /api/v1/remotes/server/register HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\nhostname="
            .utf8
        )
      case .halfOpen: [0x16, 0x03, 0x01, 0x02, 0x00, 0x01, 0x00, 0x01, 0xFC, 0x03, 0x03]
      }
    }

    var next: [UInt8] { self == .slow ? [UInt8(ascii: "a")] : [] }
  }

  private let port: Int
  private let habit: Habit
  private let held: Int
  private var sockets: [CInt] = []
  private var count = 0
  private var isToEnd = false

  /// - Parameter held: how many of their own they keep open at most.
  init(port: Int, habit: Habit, held: Int) {
    (self.port, self.habit, self.held) = (port, habit, held)
  }

  /// Opens so many connections, and more until it is to end and the time is over.
  func come(_ total: Int, for duration: Duration) async throws {
    let end = ContinuousClock.now + duration
    while count < total || !isToEnd || ContinuousClock.now < end {
      let group = 100
      for _ in 0..<group { try open() }
      try await Task.sleep(for: .milliseconds(5))
      go(on: group)
    }
  }

  /// Opens a connection, from one of 16 addresses in turn.
  private func open() throws {
    count += 1
    let descriptor = socket(
      AF_INET, CInt(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue), 0)
    guard descriptor >= 0 else { throw POSIXError(.init(rawValue: errno) ?? .EIO) }
    // The port is chosen when it connects, or a few ten thousand would soon be all in use.
    var one: CInt = 1
    setsockopt(
      descriptor, CInt(IPPROTO_IP), IP_BIND_ADDRESS_NO_PORT, &one, socklen_t(MemoryLayout<CInt>.size))
    _ = try SocketAddress(ipAddress: "127.0.1.\(1 + count % 16)", port: 0).withSockAddr {
      bind(descriptor, $0, socklen_t($1))
    }
    _ = try SocketAddress(ipAddress: "127.0.0.1", port: port).withSockAddr {
      connect(descriptor, $0, socklen_t($1))
    }
    sockets.append(descriptor)
    if sockets.count > held {
      // The oldest are those that the service has given up by now.
      for descriptor in sockets[..<(held / 2)] { close(descriptor) }
      sockets.removeFirst(held / 2)
    }
  }

  /// Sends what comes first on the newest, and a little more on all.
  private func go(on newest: Int) {
    for descriptor in sockets.suffix(newest) { send(habit.first, descriptor) }
    if !habit.next.isEmpty { for descriptor in sockets { send(habit.next, descriptor) } }
  }

  private func send(_ bytes: [UInt8], _ descriptor: CInt) {
    if !bytes.isEmpty { _ = Foundation.send(descriptor, bytes, bytes.count, CInt(MSG_NOSIGNAL)) }
  }

  /// Has so many of them come anew, none of whom leaves.
  func stay(_ count: Int) async throws {
    leave()
    while sockets.count < count {
      let group = min(25, count - sockets.count)
      for _ in 0..<group { try open() }
      try await Task.sleep(for: .milliseconds(5))
      go(on: group)
    }
  }

  /// Ends the arrival of new strangers.
  func end() { isToEnd = true }

  func leave() {
    for descriptor in sockets { close(descriptor) }
    sockets = []
  }
}
