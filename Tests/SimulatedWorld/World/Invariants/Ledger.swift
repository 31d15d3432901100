import Foundation

/// The promises made, the pushes that arrived and the log lines written, as the world saw them.
struct Ledger {
  struct Promise {
    let label: String
    let token: String
    /// When it was asked for, and when the answer came.
    let time: Double
    let answeredAt: Double
  }

  var promises: [Promise] = []
  /// When each message was written.
  var messages: [String: Double] = [:]
  /// When the answer to a commit was last lost: what was written may have been written again.
  var lostCommitAt = -1000.0
  /// By message and phone.
  var arrivals: [String: [Arrival]] = [:]
  /// Number of notifications that the log reported as lost, by token fingerprint.
  var losses: [String: Int] = [:]
  /// When the log last reported the end of a registration, by token fingerprint. The notifications that
  /// waited for it end with it.
  var ended: [String: Double] = [:]
  /// When the service accepted a provider's false report that a token is dead.
  var believed: [String: Double] = [:]
  /// Number of rate-limited log lines, by run of a node and by minute.
  var lines: [Int: [Int: Int]] = [:]
  /// Notifications refused because too many wait.
  var backlogged = 0
  /// When the database last failed or was slow.
  var databaseTroubleAt = -1000.0
  var clockTroubleAt = -10_000.0
}
