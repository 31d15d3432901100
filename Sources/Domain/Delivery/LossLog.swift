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
  /// Lines about waiting notifications in a minute, of each reason.
  static let waitsPerMinute = 5
  private let waits = Mutex<[Reason: LineBudget]>([:])
  /// Refusals because of a backlog: those of devices with reasons of their own, and others.
  private let backlogs = Mutex([true: Backlog(), false: Backlog()])

  /// Refusals because of a backlog that are not logged yet, and when some were last logged.
  private struct Backlog {
    var count = 0
    var toldAt = Date.distantPast
    /// The latest of the devices.
    var device: RegistrationReference?
    var reason: Reason?
  }

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

  /// Logs notifications that wait although their route works: their device or chat server has to wait.
  func tellWaits(_ kept: [Outbox.Addition], now: Date) async {
    let told = kept.filter { kept in
      guard let wait = kept.delivery.wait, wait.isOwn else { return false }
      return waits.withLock {
        $0[wait.reason, default: LineBudget(perMinute: Self.waitsPerMinute)].spend(1, now: now) > 0
      }
    }
    guard !told.isEmpty else { return }
    let servers = (try? await registrations.hostnames(of: told.map(\.delivery.registration))) ?? [:]
    for kept in told {
      guard let reason = kept.delivery.wait?.reason else { continue }
      let server = servers[kept.delivery.registration.id]
      tell(
        "notification waits", Loss(delivery: kept.delivery, route: kept.route, server: server),
        reason: "\(reason)",
        more: ["device": "\(kept.delivery.registration.name)", "until": "\(kept.dueAt.formatted(.iso8601))"])
    }
  }

  /// Logs refusals because of a backlog: `most` notifications wait for the device already, or the push
  /// service has its maximum. The first is logged at once, further ones together once a minute.
  ///
  /// - Parameter refused: the devices, each with why its notification would have had to wait.
  func tellBacklog(
    _ refused: [(device: RegistrationReference, wait: RegisteredPush.Wait?)], most: Int, now: Date
  ) {
    let told = backlogs.withLock { backlogs in
      for (device, wait) in refused {
        // Anybody may register a device with the push proxy, and send to it.
        let isOwn = wait?.isOwn == true || device.kind == .nextcloud
        backlogs[isOwn]?.count += 1
        backlogs[isOwn]?.device = device
        backlogs[isOwn]?.reason = wait?.reason
      }
      return backlogs.filter { isOwn, backlog in
        // A time before the last log means that the clock was put back.
        guard !(0..<60).contains(now.timeIntervalSince(backlog.toldAt)), backlog.count > 0 else {
          return false
        }
        backlogs[isOwn] = Backlog(toldAt: now)
        return true
      }
    }
    for (isOwn, backlog) in told {
      let device = backlog.device?.name ?? ""
      logger.warning(
        isOwn
          ? "notifications are refused: as many as may (\(most)) wait for their device already, for reasons of its own"
          : "notifications are refused: as many as may (\(most)) wait for their device already, or for its push service",
        metadata: [
          "refused": .stringConvertible(backlog.count), "device": "\(device)",
          "reason": "\(backlog.reason?.description ?? "")",
          "advice": isOwn
            ? "the route works; why they wait: push-bouncer device show \(device)"
            : "see which route does not work, and why: push-bouncer routes list",
        ])
    }
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
    switch push.name(of: registration.id) {
    case .token(let token): PushToken.fingerprint(of: token)
    case .tokenID(let id): TokenID(base64: id)?.fingerprint ?? ""
    case nil: nil
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
