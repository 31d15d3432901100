internal import Delivery
internal import Foundation
internal import Synchronization
internal import Wire

/// The pace at which a chat server's notifications are sent. A refused notification is lost for good, so what is
/// beyond it is not refused but due later, each at its own time.
///
/// This is the generic cell rate algorithm (ITU-T I.371), with the limit's window as its burst: as many as the
/// limit go at once, and what exceeds it by ten times comes out over ten windows.
public final class NotificationPace: Sendable {
  /// A server's share of the outbox, in windows of the limit: how far ahead of now it may be booked.
  public static let share = 15.0
  private static let maximumServers = 100_000

  private let limit: RateLimit?
  private let now: @Sendable () -> Date
  /// Until when each server's notifications so far take up the pace.
  private let booked = Mutex<[Int64: Date]>([:])

  /// Without a limit everything goes at once.
  init(_ limit: RateLimit?, now: @escaping @Sendable () -> Date) {
    self.limit = limit
    self.now = now
  }

  /// Gives each of a server's notifications its time.
  ///
  /// - Throws: 503 while as much as the server's share waits already.
  func pace(_ deliveries: [Delivery], of server: Int64) throws(APIError) -> [Delivery] {
    guard let limit, !deliveries.isEmpty else { return deliveries }
    let now = now()
    let interval = limit.seconds / Double(limit.calls)
    let ahead = booked.withLock { booked -> TimeInterval in
      // A clock that was set back must not hold a server up for longer than its share.
      let end = min(booked[server] ?? now, now + limit.seconds * (Self.share + 2))
      let ahead = max(0, end.timeIntervalSince(now))
      let count = ahead > limit.seconds * (Self.share + 1) ? 0 : deliveries.count
      if booked.count >= Self.maximumServers, booked[server] == nil {
        booked = booked.filter { $0.value > now }
      }
      booked[server] = now + ahead + interval * Double(count)
      return ahead
    }
    let excess = ahead - limit.seconds * (Self.share + 1)
    if excess > 0 {
      throw .unavailable(
        "Too many notifications are waiting already", retryAfter: max(1, Int(excess.rounded(.up))))
    }
    return deliveries.enumerated().map { index, delivery in
      let late = ahead + interval * Double(index + 1) - limit.seconds
      guard late > 0 else { return delivery }
      var delivery = delivery
      delivery.notBefore = now + late
      return delivery
    }
  }
}
