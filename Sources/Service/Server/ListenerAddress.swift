package import Basics
import Foundation
import HTTP
import NIOCore
import Platform

/// Where a listener listens: at a host and port, or on a socket that was passed to this process.
package struct ListenerAddress: Sendable {
  let host: String
  let port: Int
  /// The settings or options for host and port, to be named in faults. The first is nil if the host is fixed.
  let keys: (host: String?, port: String)
  /// A listening socket that was passed to this process, and that systemd holds open.
  var passed: CInt?

  package init(host: String, port: Int, keys: (host: String?, port: String), passed: CInt? = nil) {
    self.host = host
    self.port = port
    self.keys = keys
    self.passed = passed
  }

  /// Throws if the address cannot be listened on now, or if a passed socket does not match the settings.
  package func check() throws(Fault) {
    if let passed { return try check(held: PassedSockets.address(of: passed)) }
    close(try open())
  }

  /// Throws if the socket that systemd holds does not match the settings. Port 0 matches every port.
  ///
  /// - Parameter held: the socket's address, such as `127.0.0.1:8080`.
  func check(held: String) throws(Fault) {
    let ours = try spelled()
    guard port != 0, ours != held else { return }
    throw Fault(
      key: keys.port, "names port \(port) of \(host), but systemd holds \(held) for it",
      advice: """
        let both name the same: systemctl edit push-bouncer.socket, with the lines [Socket], ListenStream= and \
        ListenStream=\(ours), then systemctl restart push-bouncer.socket
        """)
  }

  /// The address in systemd's notation.
  private func spelled() throws(Fault) -> String {
    let ip = try resolved().ipAddress ?? host
    return "\(ip.utf8.contains(UInt8(ascii: ":")) ? "[\(ip)]" : ip):\(port)"
  }

  /// Whether both cannot listen at the same time.
  func collides(with other: ListenerAddress) -> Bool {
    guard passed == nil, other.passed == nil, port == other.port, port != 0 else { return false }
    return host == other.host || [host, other.host].contains { ["0.0.0.0", "::"].contains($0) }
  }

  /// Returns the descriptor of a listening socket.
  func open() throws(Fault) -> CInt {
    if let passed { return passed }
    let address = try resolved()
    do {
      return try address.listen()
    } catch {
      throw fault(error.errnoCode)
    }
  }

  /// The listening socket, opened when the listener starts.
  var socket: ListeningSocket { ListeningSocket(isShared: passed != nil) { try open() } }

  private func resolved() throws(Fault) -> SocketAddress {
    do {
      return try SocketAddress.makeAddressResolvingHost(host, port: port)
    } catch {
      throw Fault(
        key: keys.host ?? keys.port, "names \(host), which no name server knows",
        advice: "name an address of this machine")
    }
  }

  private func fault(_ number: CInt) -> Fault {
    let advice =
      switch number {
      case EADDRINUSE: "end the program that listens there (ss -ltnp shows it), or choose another port"
      case EACCES, EPERM: "choose a port from 1024 on, or grant \(FileObstacle.user) CAP_NET_BIND_SERVICE"
      default: "choose an address that ip address shows, or 0.0.0.0 for all"
      }
    let isOfHost = [EADDRNOTAVAIL, EAFNOSUPPORT].contains(number)
    let (key, name) = isOfHost ? (keys.host ?? keys.port, host) : (keys.port, "port \(port) of \(host)")
    return Fault(key: key, "names \(name), which \(FileObstacle(number).problem)", advice: advice)
  }
}

extension SocketAddress {
  /// Creates a socket of this process that listens at the address.
  fileprivate func listen() throws(IOError) -> CInt {
    let kind = CInt(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue)
    let descriptor = socket(self.protocol.rawValue, kind, 0)
    guard descriptor >= 0 else { throw IOError(errnoCode: errno, reason: "socket") }
    var reuse: CInt = 1
    setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &reuse, socklen_t(MemoryLayout<CInt>.size))
    let isBound = withSockAddr { bind(descriptor, $0, socklen_t($1)) == 0 }
    guard isBound, Foundation.listen(descriptor, Self.backlog) == 0 else {
      let error = IOError(errnoCode: errno, reason: "bind")
      close(descriptor)
      throw error
    }
    return descriptor
  }

  /// How many connections may wait to be accepted.
  private static let backlog: CInt = 1024
}
