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
