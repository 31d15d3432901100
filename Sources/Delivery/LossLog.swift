package import Foundation
import Logging
import Providers
import Registrations
import Sealing
import Synchronization

/// Logs ended registrations and notifications that were refused or given up, with their chat server. The
/// number of lines a minute is limited, so that a provider that refuses everything does not fill the disk.
final class LossLog: Sendable {
  /// A notification that was lost, or a registration that has ended.
  struct Loss: Sendable {
    let delivery: RegisteredPush
    let route: Route?
    /// Hostname of the chat server, if known.
    let server: String?
  }

  static let linesPerMinute = 60

  private let registrations: RegistrationStore
  private let logger: Logger
  private let budget = Mutex(LineBudget(perMinute: LossLog.linesPerMinute))
  /// Refusals because of a backlog that are not logged yet, and when some were last logged.
  private let backlog = Mutex((count: 0, toldAt: Date.distantPast))

  init(registrations: RegistrationStore, logger: Logger) {
    self.registrations = registrations
    self.logger = logger
  }

  /// Selects the deliveries that may be logged, each with its chat server. Must be called before their
  /// registrations are removed.
  func losses(_ deliveries: [(delivery: RegisteredPush, route: Route?)], now: Date) async -> [Loss] {
    let count = budget.withLock { $0.spend(deliveries.count, now: now) }
    guard count > 0 else { return [] }
    let told = deliveries.prefix(count)
    // A failed lookup leaves the hostname out; a line without it is better than none.
    let servers = (try? await registrations.hostnames(of: told.map(\.delivery.registration))) ?? [:]
    return told.map { Loss(delivery: $0, route: $1, server: servers[$0.registration.id]) }
  }

  func tell(_ message: Logger.Message, _ loss: Loss, reason: String, more: Logger.Metadata = [:]) {
    var metadata = more
    metadata["reason"] = "\(reason)"
    metadata["token"] = loss.delivery.fingerprint.map { "\($0)" }
    metadata["kind"] = "\(loss.delivery.registration.kind)"
    metadata["route"] = loss.route.map { "\($0)" }
    metadata["server"] = loss.server.map { "\($0)" }
    logger.info(message, metadata: metadata)
  }

  /// Logs refusals because of a backlog: `most` notifications wait for the device already, or the push
  /// service has its maximum. The first is logged at once, further ones together once a minute.
  func tellBacklog(_ refused: Int, most: Int, now: Date) {
    let count = backlog.withLock { backlog in
      backlog.count += refused
      // A time before the last log means that the clock was put back.
      guard !(0..<60).contains(now.timeIntervalSince(backlog.toldAt)), backlog.count > 0 else { return 0 }
      defer { backlog = (0, now) }
      return backlog.count
    }
    guard count > 0 else { return }
    logger.warning(
      "notifications are refused: as many as may (\(most)) wait for their device already, or for its push service",
      metadata: [
        "refused": .stringConvertible(count),
        "advice": "see which route does not work, and why: push-bouncer routes list",
      ])
  }

  /// Logs how many lines were left out, when their minute is over.
  func tellLeftOut(now: Date) {
    let leftOut = budget.withLock { $0.takeLeftOut(now: now) }
    guard leftOut > 0 else { return }
    logger.notice(
      "more lines were left out: registrations ended, notifications refused or given up",
      metadata: ["left_out": .stringConvertible(leftOut)])
  }
}

extension RegisteredPush {
  /// The first 8 hex digits of the token's SHA-256.
  fileprivate var fingerprint: String? {
    switch push {
    case .apns(let notification): PushToken.fingerprint(of: notification.token)
    case .fcm(let message): PushToken.fingerprint(of: message.token)
    case .webPush(let message): PushToken.fingerprint(of: message.subscription.token)
    case .upstream(let push):
      push.name(of: registration.id).map { name in
        push.isShared ? PushToken.fingerprint(of: name) : TokenID(base64: name)?.fingerprint ?? ""
      }
    }
  }
}

/// Limits the lines that are logged in a minute.
package struct LineBudget: Sendable {
  private let perMinute: Int
  private var minute = Date.distantPast
  private var spent = 0
  private var leftOut = 0

  package init(perMinute: Int) { self.perMinute = perMinute }

  /// Returns how many of `count` lines may be written now.
  package mutating func spend(_ count: Int, now: Date) -> Int {
    // A time before the minute means that the clock was put back.
    if !(0..<60).contains(now.timeIntervalSince(minute)) { (minute, spent) = (now, 0) }
    let granted = min(count, perMinute - spent)
    spent += granted
    leftOut += count - granted
    return granted
  }

  /// Returns the number of lines left out, once their minute is over.
  package mutating func takeLeftOut(now: Date) -> Int {
    guard leftOut > 0, !(0..<60).contains(now.timeIntervalSince(minute)) else { return 0 }
    defer { leftOut = 0 }
    return leftOut
  }
}
