import Foundation
import Logging
import Platform
import Providers
import Registrations
import Sealing

extension RateLimitedLog.Limit {
  static let losses = Self("registrations ended, notifications refused or given up", perMinute: 60)
  static func waits(for reason: Reason) -> Self { Self("notifications that wait: \(reason)", perMinute: 5) }
  /// Anybody may register a device of an open kind and send to it, so backlogs of these have a limit of their own, as
  /// have those whose reason is their device's.
  static let backlogOfDevice = Self(
    "notifications refused because of a backlog of a single device or of an open kind", perMinute: 1)
  static let backlogOfRoute = Self("notifications refused because of a backlog", perMinute: 1)
}

/// Log lines about lost and waiting notifications, with their chat server. Their number is limited, so that a provider
/// that refuses everything does not fill the disk.
extension Deliverer {
  /// Hostnames of the chat servers of registrations, by id, for as many as may be logged with this limit. Must be called
  /// before the registrations are removed.
  func hostnames(
    of deliveries: [RegisteredPush], within limit: RateLimitedLog.Limit
  ) async -> [Int64: String] {
    let logged = deliveries.prefix(rateLimitedLog.remaining(limit, now: now()))
    guard !logged.isEmpty else { return [:] }
    // A failed lookup leaves the hostname out; a line without it is better than none.
    return (try? await registrations.hostnames(of: logged.map(\.registration))) ?? [:]
  }

  func log(
    _ message: Logger.Message, _ limit: RateLimitedLog.Limit, _ delivery: RegisteredPush, on route: Route?,
    server: String?, reason: Reason, more: @autoclosure () -> Logger.Metadata = [:]
  ) {
    rateLimitedLog.log(
      .info, message, limit, to: logger, now: now(),
      metadata: Self.metadata(delivery, route, server, reason).merging(more()) { $1 })
  }

  private static func metadata(
    _ delivery: RegisteredPush, _ route: Route?, _ server: String?, _ reason: Reason
  ) -> Logger.Metadata {
    var metadata: Logger.Metadata = ["reason": "\(reason)", "kind": "\(delivery.registration.wire)"]
    metadata["token"] = delivery.fingerprint.map { "\($0)" }
    metadata["route"] = route.map { "\($0)" }
    metadata["server"] = server.map { "\($0)" }
    return metadata
  }

  /// Logs notifications that wait although their route works: their device or chat server has to wait, or the provider did
  /// not take this one. What a route that does not work holds up has a line of the route.
  func logWaiting(_ kept: [Outbox.Addition]) async {
    let waiting = Dictionary(grouping: kept) { kept in
      kept.delivery.wait.flatMap { $0.isOwn || works(kept.route) ? $0.reason : nil }
    }
    for case (let reason?, let kept) in waiting {
      let limit = RateLimitedLog.Limit.waits(for: reason)
      let servers = await hostnames(of: kept.map(\.delivery), within: limit)
      for kept in kept {
        log(
          "notification waits", limit, kept.delivery, on: kept.route,
          server: servers[kept.delivery.registration.id], reason: reason,
          more: [
            "device": "\(kept.delivery.registration.name)", "until": "\(kept.dueAt.formatted(.iso8601))",
          ])
      }
    }
  }

  private func works(_ route: Route) -> Bool {
    let target = route.isOfHost ? route.credential : route.target
    let sender = providers.routeSender(route.provider, target: target.isEmpty ? nil : target)
    return sender.map { $0.state.failure == nil } ?? false
  }

  /// Logs that a notification was refused because too many wait already: for the device, or for all devices of its owner.
  ///
  /// - Parameter wait: why the notification would have had to wait.
  func logBacklog(
    _ device: RegistrationReference, _ reason: Reason, _ wait: RegisteredPush.WaitReason?
  ) {
    let isOwn = wait?.isOwn == true
    rateLimitedLog.log(
      .warning,
      reason == .backlogged
        ? "notifications refused: \(outbox.mostPerDevice) already wait for this device, which is the maximum"
        : "notifications refused: too many already wait for the devices of this one's address or sender",
      isOwn || device.wire.isOpen ? .backlogOfDevice : .backlogOfRoute, to: logger, now: now(),
      metadata: [
        "device": "\(device.name)", "reason": "\(wait?.reason.description ?? "")",
        "advice": isOwn
          ? "the route works; why they wait: push-bouncer device show \(device.name)"
          : "see which route does not work, and why: push-bouncer routes list",
      ])
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
