import Foundation

/// What was promised, what has arrived and what was told, as the world sees it.
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
  /// Notifications that the log has told the loss of, by the token's fingerprint.
  var losses: [String: Int] = [:]
  /// When the log last told that a registration had ended, by the token's fingerprint: what waited for it goes with it.
  var ended: [String: Double] = [:]
  /// When a provider was believed that called a living token dead.
  var believed: [String: Double] = [:]
  /// Lines of a node that are limited, by its run and by the minute.
  var lines: [Int: [Int: Int]] = [:]
  /// Notifications refused because too many wait.
  var backlogged = 0
  /// When the database was last not as it should be.
  var databaseTroubleAt = -1000.0
  var clockTroubleAt = -10_000.0
}
