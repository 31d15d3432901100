internal import Foundation

/// The service manager that has started this process and wants to be told of its state (sd_notify(3)).
package final class ServiceManager: Sendable {
  /// A state that it is told.
  package enum Message: String, Sendable {
    /// Requests are taken and answered.
    case ready = "READY=1"
    /// The shutdown has begun.
    case stopping = "STOPPING=1"
    /// Requests can still be answered.
    case alive = "WATCHDOG=1"
  }

  /// How often it wants to hear that the process is alive: half of the time after which it would kill it; nil if never.
  package let watchdogInterval: Duration?
  private let descriptor: CInt
  /// A `sockaddr_un`, as long as it has to be.
  private let address: [UInt8]

  /// The one that the environment names, and removes it there; nil if there is none.
  ///
  /// - Throws: ``Fault`` if its address is none.
  package static func take() throws(Fault) -> ServiceManager? {
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
        source: "NOTIFY_SOCKET", "wants a path, or @ and a name, of at most \(Self.maximumPath - 1) bytes")
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
    // Kept open: it has to work, too, when there are no descriptors left.
    descriptor = socket(AF_UNIX, CInt(SOCK_DGRAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
  }

  deinit {
    close(descriptor)
  }

  /// Tells it; false if it does not listen.
  @discardableResult
  package func tell(_ message: Message) -> Bool {
    let bytes = Array(message.rawValue.utf8)
    return address.withUnsafeBytes { address in
      sendto(
        descriptor, bytes, bytes.count, CInt(MSG_NOSIGNAL),
        address.assumingMemoryBound(to: sockaddr.self).baseAddress,
        socklen_t(address.count)) == bytes.count
    }
  }

  /// `sun_path` has no more.
  private static let maximumPath = 108
}

/// The listening sockets that systemd has opened for this process and keeps open while it is restarted, so
/// that whoever connects meanwhile waits instead of being refused (sd_listen_fds(3)).
package struct PassedSockets: Sendable, Hashable {
  /// The descriptor of the public listener's socket, if it was passed.
  package private(set) var `public`: CInt?
  /// The descriptor of the operator's listener's socket, if it was passed.
  package private(set) var admin: CInt?

  /// No sockets: both listeners open their own.
  package init() {}

  /// Takes the sockets that were passed to this process, and removes them from the environment.
  ///
  /// - Throws: ``Fault`` if something else was passed than the two listeners can use.
  package static func take() throws(Fault) -> PassedSockets {
    let environment = ProcessInfo.processInfo.environment
    for name in ["LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"] { unsetenv(name) }
    let sockets = try PassedSockets(environment: environment, processID: getpid())
    for descriptor in [sockets.public, sockets.admin].compactMap(\.self) {
      _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
    }
    return sockets
  }

  /// What an environment says was passed to the process of this number; the descriptors have to listen.
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

  /// Where a passed socket listens, as systemd writes it: `127.0.0.1:8080`, `[::1]:8080`.
  package static func address(of descriptor: CInt) -> String {
    var address = sockaddr_storage()
    var size = socklen_t(MemoryLayout<sockaddr_storage>.size)
    var (host, port) = ([CChar](repeating: 0, count: 64), [CChar](repeating: 0, count: 8))
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

  /// Which listener each socket is for, in their order. A socket unit that gives no name passes its own, the
  /// same for each of its sockets: that is none.
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
