package import Basics
import Foundation

/// The service manager that started this process and wants to be notified of its state (sd_notify(3)).
package final class ServiceManager: Sendable {
  /// A state of the service.
  package enum Message: String, Sendable {
    /// Requests are accepted and answered.
    case ready = "READY=1"
    /// The shutdown has begun.
    case stopping = "STOPPING=1"
    /// Requests can still be answered.
    case alive = "WATCHDOG=1"
  }

  /// How often the service manager needs a sign of life: half of its watchdog timeout; nil if there is no
  /// watchdog.
  package let watchdogInterval: Duration?
  private let descriptor: CInt
  /// A `sockaddr_un` without unused bytes at its end.
  private let address: [UInt8]

  /// The service manager from the environment, whose variables are removed; nil if there is none.
  ///
  /// - Throws: ``Fault`` if its address is invalid.
  package static func fromEnvironment() throws(Fault) -> ServiceManager? {
    let environment = ProcessInfo.processInfo.environment
    for name in ["NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"] { unsetenv(name) }
    return try ServiceManager(environment: environment, processID: getpid())
  }

  init?(environment: [String: String], processID: pid_t) throws(Fault) {
    guard let name = environment["NOTIFY_SOCKET"], !name.isEmpty else { return nil }
    // A name in the abstract namespace begins with a zero byte and has none at its end.
    let path = name.utf8.first == UInt8(ascii: "@") ? [0] + name.utf8.dropFirst() : name.utf8 + [0]
    guard path.count > 2, path.first == 0 || path.first == UInt8(ascii: "/"), path.count <= Self.maximumPath
    else {
      throw Fault(
        source: "NOTIFY_SOCKET", "must be a path, or @ and a name, of at most \(Self.maximumPath - 1) bytes")
    }
    address = withUnsafeBytes(of: sa_family_t(AF_UNIX)) { Array($0) } + path
    watchdogInterval =
      if let microseconds = environment["WATCHDOG_USEC"].flatMap({ Int64($0) }), microseconds > 1,
        environment["WATCHDOG_PID"].map({ pid_t($0) == processID }) ?? true
      {
        .microseconds(microseconds / 2)
      } else {
        nil
      }
    // The socket is kept open, so that notifications work even if no descriptors are left.
    descriptor = socket(AF_UNIX, CInt(SOCK_DGRAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
  }

  deinit {
    close(descriptor)
  }

  /// What became of a message.
  package enum Result: Sendable {
    case sent
    /// The service manager has not read its earlier messages yet.
    case full
    /// The service manager is not listening.
    case notListening
  }

  /// Sends the state if the service manager takes it at once.
  @discardableResult
  package func notify(_ message: Message) -> Result {
    let bytes = Array(message.rawValue.utf8)
    let sent = address.withUnsafeBytes { address in
      sendto(
        descriptor, bytes, bytes.count, CInt(MSG_NOSIGNAL | MSG_DONTWAIT),
        address.assumingMemoryBound(to: sockaddr.self).baseAddress,
        socklen_t(address.count))
    }
    guard sent < 0 else { return .sent }
    return [EAGAIN, ENOBUFS, EINTR].contains(errno) ? .full : .notListening
  }

  /// The size of `sun_path`.
  private static let maximumPath = 108
}

/// The listening sockets that systemd has opened for this process (sd_listen_fds(3)). They stay open during a
/// restart, so that clients wait instead of being refused.
package struct PassedSockets: Sendable, Hashable {
  /// The public listener's socket, if it was passed.
  package private(set) var `public`: CInt?
  /// The operator's listener's socket, if it was passed.
  package private(set) var admin: CInt?

  /// No passed sockets: both listeners open their own.
  package init() {}

  /// The sockets that were passed to this process; their variables are removed from the environment.
  ///
  /// - Throws: ``Fault`` if the sockets do not match the two listeners.
  package static func fromEnvironment() throws(Fault) -> PassedSockets {
    let environment = ProcessInfo.processInfo.environment
    for name in ["LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"] { unsetenv(name) }
    let sockets = try PassedSockets(environment: environment, processID: getpid())
    for descriptor in [sockets.public, sockets.admin].compactMap(\.self) {
      _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
    }
    return sockets
  }

  /// Reads the variables for the process with this id, and checks that the descriptors are listening sockets.
  init(environment: [String: String], processID: pid_t, first: CInt = 3) throws(Fault) {
    guard environment["LISTEN_PID"].flatMap({ pid_t($0) }) == processID else { return }
    let text = environment["LISTEN_FDS"] ?? "0"
    guard let count = Int(text), (0...Self.listeners.count).contains(count) else {
      throw Fault(
        source: "LISTEN_FDS", key: "\(text) sockets",
        "were passed, but there are only \(Self.listeners.count) listeners")
    }
    for (offset, name) in try Self.names(environment["LISTEN_FDNAMES"], count: count).enumerated() {
      let descriptor = first + CInt(offset)
      try Self.check(descriptor)
      if name == "public" { self.public = descriptor } else { admin = descriptor }
    }
  }

  /// The address of a passed socket, in systemd's notation: `127.0.0.1:8080`, `[::1]:8080`.
  package static func address(of descriptor: CInt) -> String {
    var address = sockaddr_storage()
    var size = socklen_t(MemoryLayout<sockaddr_storage>.size)
    var host = [CChar](repeating: 0, count: 64)
    var port = [CChar](repeating: 0, count: 8)
    withUnsafeMutablePointer(to: &address) {
      $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
        getsockname(descriptor, address, &size)
        getnameinfo(
          address, size, &host, socklen_t(host.count), &port, socklen_t(port.count),
          NI_NUMERICHOST | NI_NUMERICSERV)
      }
    }
    func text(_ bytes: [CChar]) -> String {
      String(decoding: bytes.prefix { $0 != 0 }.map(UInt8.init), as: UTF8.self)
    }
    return "\(address.ss_family == AF_INET6 ? "[\(text(host))]" : text(host)):\(text(port))"
  }

  private static let listeners = ["public", "admin"]

  /// The listener of each socket, in order. If a socket unit sets no name, systemd passes the unit's own for
  /// every socket, which counts as no name.
  private static func names(_ text: String?, count: Int) throws(Fault) -> [String] {
    let names = (text ?? "").split(separator: ":", omittingEmptySubsequences: false).map(String.init)
    let isNamed = !names.allSatisfy { $0.isEmpty || $0 == names[0] && $0.hasSuffix(".socket") }
    guard isNamed else { return Array(listeners.prefix(count)) }
    guard names.count == count, Set(names).count == count, names.allSatisfy(listeners.contains) else {
      throw Fault(
        source: "LISTEN_FDNAMES", key: "the passed sockets",
        "are named \(names.joined(separator: ", ")); FileDescriptorName= has to be public or admin"
      )
    }
    return names
  }

  private static func check(_ descriptor: CInt) throws(Fault) {
    func option(_ name: CInt) -> CInt? {
      var value: CInt = 0
      var size = socklen_t(MemoryLayout<CInt>.size)
      return getsockopt(descriptor, SOL_SOCKET, name, &value, &size) == 0 ? value : nil
    }
    let problem: String? =
      switch (option(SO_DOMAIN), option(SO_TYPE), option(SO_ACCEPTCONN)) {
      case (nil, _, _): "is no socket"
      case (AF_INET, CInt(SOCK_STREAM.rawValue), 1), (AF_INET6, CInt(SOCK_STREAM.rawValue), 1): nil
      case (AF_INET, CInt(SOCK_STREAM.rawValue), _), (AF_INET6, CInt(SOCK_STREAM.rawValue), _):
        "does not listen (Accept=no)"
      default: "is no TCP socket (ListenStream= with a port)"
      }
    if let problem { throw Fault(source: "LISTEN_FDS", key: "descriptor \(descriptor)", problem) }
  }
}
