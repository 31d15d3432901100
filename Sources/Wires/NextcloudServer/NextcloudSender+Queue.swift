import Basics
import Foundation
import HTTP
import HTTPClient
import Logging
import Providers
import Registrations
import SQL

extension NextcloudSender {
  /// Maximum number of queued pushes in one request.
  private static let atOnce = 200
  /// The pause between queries for proxies with due pushes.
  private static let interval = Duration.milliseconds(500)
  /// Seconds between removals of expired pushes.
  private static let removalInterval: TimeInterval = 60
  private static let backoff = Backoff(first: 2, longest: 300)

  /// Sends queued pushes until the task is cancelled; pushes under way are then released. Each proxy is
  /// served independently.
  package func run() async {
    var removedAt = Date.distantPast
    // Pushes are queued with a delay, so no wake-up is needed.
    await Lanes(every: Self.interval).run {
      if now().timeIntervalSince(removedAt) >= Self.removalInterval {
        try await removeExpired()
        removedAt = now()
      }
      return try await pushes.dueProxies()
    } round: { proxy in
      await self.round(for: proxy)
    } onError: { error in
      logger.error(
        "queued pushes could not be processed", metadata: ["error": "\(DatabaseError.name(of: error))"])
    }
  }

  private func removeExpired() async throws {
    let count = try await pushes.removeExpired()
    if count > 0 {
      logger.warning(
        "pushes given up: no push proxy accepted them", metadata: ["count": .stringConvertible(count)])
    }
  }

  /// Sends the due pushes of a proxy; returns whether there may be more and the proxy accepts them.
  private func round(for proxy: String) async -> Bool {
    do {
      let seconds = leaseEnd.timeIntervalSince(now())
      let batch = try await pushes.lease(proxy: proxy, limit: Self.atOnce, for: seconds)
      guard !batch.isEmpty else { return false }
      let answer = await post(batch.map(\.entry), to: proxy)
      guard !Task.isCancelled else {
        try await pushes.queue.postpone(batch.compactMap(\.lease), until: now())
        return false
      }
      _ = try await settle(batch, answer)
      if case .unavailable = answer { return false }
      return true
    } catch {
      // When the lease runs out, the pushes are tried again.
      logger.error("queued pushes could not be sent", metadata: ["error": "\(DatabaseError.name(of: error))"])
      return false
    }
  }

  /// Acts on an answer (`Documentation/Protocols/Nextcloud.md` 6.5).
  func settle(_ batch: [NextcloudPush], _ answer: ProxyAnswer) async throws -> NextcloudReceipt.Proxy {
    var part = NextcloudReceipt.Proxy(
      url: batch.first?.proxy ?? "", status: answer.status, reason: answer.reason?.rawValue)
    switch answer {
    case .accepted(_, let unknown, let failed):
      let lost = batch.filter { unknown.contains($0.deviceIdentifier) }
      // Each phone is counted and removed once, however many pushes were for it.
      let phones = Dictionary(lost.map { ($0.registration, $0.registeredAt) }, uniquingKeysWith: max)
      part.unknown = phones.count
      part.failed = max(lost.count, min(batch.count, max(0, failed ?? batch.count)))
      part.sent = batch.count - part.failed
      let removed = try await registrations.forget(phones.map { ($0.key, $0.value) })
      if removed > 0 { log("phones removed: their push proxy does not know them", part, count: removed) }
      try await pushes.queue.finish(batch.compactMap(\.lease))
    case .acceptedWithoutCounts:
      part.sent = batch.count
      log("push proxy answered without counts; counted as accepted", part, count: batch.count)
      try await pushes.queue.finish(batch.compactMap(\.lease))
    case .refused:
      part.failed = batch.count
      log("push proxy refused pushes", part, count: batch.count)
      try await pushes.queue.finish(batch.compactMap(\.lease))
    case .unavailable:
      let tries = batch.compactMap(\.lease?.attempts).max() ?? 1
      let next = now() + Self.backoff.pause(after: tries)
      let kept = try await keep(batch, dueAt: next)
      try await pushes.queue.postpone(batch.compactMap(\.lease), until: next)
      part.queued = kept.count
      part.failed = batch.count - kept.count
      log("push proxy unavailable; queued for retry", part, count: batch.count)
    }
    return part
  }

  /// Queues the pushes that are not queued yet; returns those that are in the queue now.
  func keep(_ batch: [NextcloudPush], dueAt: Date) async throws -> [NextcloudPush] {
    batch.filter { $0.lease != nil }
      + (try await pushes.keep(
        batch.filter { $0.lease == nil }, dueAt: dueAt,
        expiresAt: expiry))
  }

  private func log(_ text: String, _ part: NextcloudReceipt.Proxy, count: Int) {
    // Only the host is logged, because the rest of the URL may contain a secret.
    logger.warning(
      "\(text)",
      metadata: [
        "proxy": "\(URL(string: part.url)?.host() ?? "")", "count": .stringConvertible(count),
        "status": "\(part.status.map(String.init) ?? "none")", "reason": "\(part.reason ?? "none")",
      ])
  }
}
