import Foundation

extension World {
  /// The longest delay of a notification when nothing but strangers disturbs the service, in seconds.
  private static let longestDelay = 60.0

  /// "Strangers delay nobody": if nothing else is wrong, every promised notification arrives within a minute.
  /// No log line excuses a loss here, because nothing has happened that would cause one.
  func checkDelays() {
    guard violation == nil, plan.isCalm else { return }
    for promise in ledger.promises {
      let phone = promise.phone
      guard isLive(promise.token), promise.time > phone.forgottenAt,
        !phone.isOfStore || plan.upstream?.isCalm == true, !phone.isHandedOver
      else {
        continue
      }
      checkDelay("\(promise.label) \(phone.number)", promise.label, to: phone, since: promise.answeredAt)
    }
    for request in nextcloud?.told ?? [] {
      for (label, row) in request.entries
      where isLive(row.token) && request.time > row.phone.phone.forgottenAt && request.failed == 0 {
        checkDelay(label, label, to: row.phone.phone, since: request.time)
      }
    }
    for message in promptMessages {
      checkDelay(
        message.key, message.label, to: message.subscription.phone.phone,
        since: message.answeredAt ?? message.postedAt)
    }
  }

  private func checkDelay(_ key: String, _ label: String, to phone: Phone, since promise: Double) {
    let delay = ledger.arrivals[key]?.first.map { $0.time - promise }
    if let delay, delay <= Self.longestDelay { return }
    violate(
      "strangers delay nobody",
      """
      \(label) was promised to \(phone.name) at \(Int(promise)) s, and \
      \(delay.map { "arrived \(Int($0)) s later" } ?? "has not arrived")
      """)
  }
}
