internal import Delivery
package import HTTP

/// What became of a message to a user's phones.
package struct NextcloudReceipt: Sendable, Hashable {
  /// What became of a proxy's part of it, or a push service's: each push is one of `sent`, `failed` and `queued`.
  package struct Proxy: Sendable, Hashable {
    /// The proxy; of a push service the origin.
    package var url: String
    /// HTTP's status of its answer; nil if there was none yet, and of push services, which answer each push by itself.
    package var status: Int?
    /// Pushes that it has taken.
    package var sent = 0
    /// Pushes that it will not take.
    package var failed = 0
    /// Phones that it does not know; their registrations are gone.
    package var unknown = 0
    /// Pushes that it gets later, until it has taken them or their time is over.
    package var queued = 0
  }

  /// Phones that the message is for.
  package var devices = 0
  /// Their proxies and push services, by URL.
  package var proxies: [Proxy] = []

  /// Adds what became of another part of the message.
  mutating func add(_ other: NextcloudReceipt) {
    devices += other.devices
    for proxy in other.proxies { add(proxy) }
  }

  mutating func add(_ part: Proxy) { update(part.url) { $0.add(part) } }

  /// Changes what became of a proxy's part; they are in the order of their URLs.
  mutating func update(_ url: String, _ change: (inout Proxy) -> Void) {
    let index = proxies.firstIndex { $0.url >= url } ?? proxies.count
    if index == proxies.count || proxies[index].url != url { proxies.insert(Proxy(url: url), at: index) }
    change(&proxies[index])
  }

  /// As the backend API tells it.
  package var json: JSON {
    [
      "devices": .integer(Int64(devices)),
      "proxies": .array(
        proxies.map { proxy in
          [
            "url": .string(proxy.url), "status": .optional(proxy.status.map(Int64.init)),
            "sent": .integer(Int64(proxy.sent)), "failed": .integer(Int64(proxy.failed)),
            "unknown": .integer(Int64(proxy.unknown)), "queued": .integer(Int64(proxy.queued)),
          ]
        }),
    ]
  }

  /// For people who test their phones.
  var text: String {
    guard devices > 0 else { return "No devices found for user" }
    return proxies.map { proxy in
      let counts = [
        (proxy.sent, "sent"), (proxy.queued, "queued"), (proxy.failed, "failed"),
        (proxy.unknown, "removed because the device is not known there"),
      ].filter { $0.0 > 0 }.map { "\($0.0) \($0.1)" }.joined(separator: ", ")
      return "\(proxy.url): \(counts)"
    }.joined(separator: "\n")
  }
}

extension NextcloudReceipt.Proxy {
  fileprivate mutating func add(_ other: Self) {
    status = status ?? other.status
    sent += other.sent
    failed += other.failed
    unknown += other.unknown
    queued += other.queued
  }

  /// What became of a push to a push service.
  ///
  /// - Parameter isFirst: whether it is the first of its subscription, which ends but once.
  mutating func count(_ result: DeliveryResult, isFirst: Bool) {
    switch result {
    case .delivered: sent += 1
    case .queued: queued += 1
    case .refused, .unconfigured: failed += 1
    case .ended:
      failed += 1
      if isFirst { unknown += 1 }
    }
  }
}
