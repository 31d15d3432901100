internal import Logging
import Synchronization

/// Tells the operator of addresses that send `X-Forwarded-For` and are named as no trusted proxy: most often the own
/// reverse proxy, all of whose clients share one limit then. Once an hour for each, and so many in an hour in all, as
/// strangers send it, too.
package final class UnnamedProxies: Sendable {
  static let maximum = 20
  static let hour = Duration.seconds(3600)

  private let now: @Sendable () -> ContinuousClock.Instant
  private let told = Mutex<[ClientAddress: ContinuousClock.Instant]>([:])

  /// Nobody has been told of.
  package init(now: @escaping @Sendable () -> ContinuousClock.Instant = { .now }) {
    self.now = now
  }

  /// Tells of the address that a request came from.
  func report(_ peer: ClientAddress, to logger: Logger) {
    let now = now()
    let isNew = told.withLock { told in
      if told[peer.source].map({ $0 + Self.hour > now }) == true { return false }
      if told.count >= Self.maximum { told = told.filter { $0.value + Self.hour > now } }
      guard told.count < Self.maximum else { return false }
      told[peer.source] = now
      return true
    }
    guard isNew else { return }
    logger.warning(
      "X-Forwarded-For is not believed: all clients behind this address count as one",
      metadata: [
        "address": "\(peer)",
        "advice":
          "if it is your own proxy, name it in http.trusted_proxies; if not, a stranger has sent the header",
      ])
  }
}
