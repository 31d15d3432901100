import Foundation
import Providers
import Sealing

/// The promises made, the pushes that arrived and the log lines written, as the world saw them.
struct Ledger {
  struct Promise {
    let label: String
    let token: String
    let phone: Phone
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
  /// Fingerprints of tokens in capitals, and those of the same tokens as ``losses`` has them.
  private var spellings: [String: String] = [:]
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
  /// When a node was last killed.
  var killedAt = -1000.0
  /// Until when a call that registers a token may take effect, where there are several tenants.
  private var registrations: [String: Double] = [:]

  /// A call registers a token, or has done so.
  mutating func registers(_ token: String, at time: Double) {
    registrations[token.canonicalToken] = time + 120
  }

  func mayBeRegistered(_ token: String, at time: Double) -> Bool {
    registrations[token.canonicalToken, default: -1] >= time
  }

  /// The fingerprint of a token, whatever its spelling.
  static func fingerprint(of token: String) -> String { PushToken.fingerprint(of: token.canonicalToken) }

  /// Makes a spelling of a token known.
  mutating func spelled(_ token: String) {
    spellings[PushToken.fingerprint(of: token)] = Self.fingerprint(of: token)
  }

  func losses(of token: String) -> Int { losses[Self.fingerprint(of: token), default: 0] }

  /// The fingerprint that stands for all spellings of the token with this one.
  func canonical(_ fingerprint: String) -> String { spellings[fingerprint] ?? fingerprint }
}
