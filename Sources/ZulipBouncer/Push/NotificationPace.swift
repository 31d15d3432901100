internal import Delivery
internal import Foundation
internal import HTTP

/// The pace at which a chat server's notifications are sent. A refused notification is lost for good, so what is
/// beyond it is not refused but due later.
package final class NotificationPace: Sendable {
  /// A server's share of the outbox, in windows of the limit: how far ahead of now it may be booked.
  package static let share = 15.0

  private let rate: CellRate<Int64>

  /// Without a limit everything goes at once.
  init(_ limit: RateLimit?, now: @escaping @Sendable () -> Date) {
    rate = CellRate(limit, windows: Self.share, now: now)
  }

  /// Gives each of a server's notifications its time.
  ///
  /// - Throws: 503 while as much as the server's share waits already.
  func pace(_ deliveries: [RegisteredPush], of server: Int64) throws(APIError) -> [RegisteredPush] {
    let booking = rate.book(deliveries.count, of: server)
    if booking.excess > 0 {
      throw .tooManyNotifications(retryAfter: max(1, Int(booking.excess.rounded(.up))))
    }
    return deliveries.enumerated().map { index, delivery in
      guard let time = booking.time(of: index) else { return delivery }
      var delivery = delivery
      delivery.notBefore = time
      return delivery
    }
  }
}
