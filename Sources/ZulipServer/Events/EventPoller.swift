package import Logging
internal import SQL
internal import Timing

/// Rings for what other processes have done to a user's devices: another node on the same database, or a
/// command. One small query at a time, and only while somebody waits.
package struct EventPoller: Sendable {
  /// How late a client may hear of what happened on another node.
  private static let interval = Duration.milliseconds(500)

  private let devices: Devices
  private let eventNotifier: EventNotifier
  private let logger: Logger

  /// Watches the users that wait at `eventNotifier`.
  package init(devices: Devices, eventNotifier: EventNotifier, logger: Logger) {
    self.devices = devices
    self.eventNotifier = eventNotifier
    self.logger = logger
  }

  /// Watches until the task is cancelled.
  package func run() async {
    var known: [Int64: Int64] = [:]
    await every(Self.interval) {
      known = try await look(known)
    } onError: { error in
      logger.warning(
        "device events cannot be watched", metadata: ["error": "\(DatabaseError.name(of: error))"])
    }
  }

  /// Rings for those whose newest event is not what it was; returns what it is now.
  func look(_ known: [Int64: Int64]) async throws -> [Int64: Int64] {
    let waiting = eventNotifier.users
    guard !waiting.isEmpty else { return [:] }
    let latest = try await devices.lastEvents(of: waiting)
    for user in waiting where latest[user] != known[user] { eventNotifier.ring(user: user) }
    return latest
  }
}
