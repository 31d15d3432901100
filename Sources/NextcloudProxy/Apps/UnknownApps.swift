internal import Foundation
internal import Synchronization

/// The `User-Agent`s of unknown apps: the operator is told of each once.
final class UnknownApps: Sendable {
  /// Names that are told in a day at most, however many strangers think up.
  static let maximum = 100
  private static let day: TimeInterval = 86_400
  private static let maximumBytes = 200

  private let now: @Sendable () -> Date
  private let told = Mutex<(since: Date, names: Set<String>)>((.distantPast, []))

  init(now: @escaping @Sendable () -> Date) {
    self.now = now
  }

  /// The name as the log may show it, if it has not been told yet.
  func add(_ userAgent: String) -> String? {
    let name = Self.printable(userAgent)
    let now = now()
    return told.withLock { told in
      if told.names.count >= Self.maximum, !(0..<Self.day).contains(now.timeIntervalSince(told.since)) {
        told.names = []
      }
      if told.names.isEmpty { told.since = now }
      guard told.names.count < Self.maximum, told.names.insert(name).inserted else { return nil }
      return name
    }
  }

  /// Printable ASCII, and not too much of it.
  private static func printable(_ text: String) -> String {
    let bytes = text.utf8.prefix(maximumBytes).map { (0x20...0x7E).contains($0) ? $0 : UInt8(ascii: "?") }
    return bytes.isEmpty ? "(none)" : String(decoding: bytes, as: UTF8.self)
  }
}
