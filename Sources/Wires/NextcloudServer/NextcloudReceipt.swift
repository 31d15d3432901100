import Delivery
package import HTTP

/// Result of sending a message to a user's phones.
package struct NextcloudReceipt: Sendable, Hashable {
  /// Results at one proxy or push service. Each push is counted as one of `sent`, `failed` and `queued`.
  package struct Proxy: Sendable, Hashable {
    /// URL of the proxy, or origin of the push service.
    package var url: String
    /// HTTP status of the proxy's answer; nil without an answer, and for push services, which answer each
    /// push by itself.
    package var status: Int?
    /// The reason why the proxy gave no answer: the name of a ``Reason``.
    package var reason: String?
    /// Pushes that were accepted.
    package var sent = 0
    /// Pushes that were refused.
    package var failed = 0
    /// Phones that the proxy does not know, whose registrations were removed.
    package var unknown = 0
    /// Pushes queued until they are accepted or expire.
    package var queued = 0
  }

  /// Number of phones that the message is for.
  package var devices = 0
  /// Results by proxy and push service, sorted by URL.
  package var proxies: [Proxy] = []

  /// Adds the results of another part of the message.
  mutating func add(_ other: NextcloudReceipt) {
    devices += other.devices
    for proxy in other.proxies { add(proxy) }
  }

  mutating func add(_ part: Proxy) { update(part.url) { $0.add(part) } }

  /// Changes the results of a proxy; creates them if there are none.
  mutating func update(_ url: String, _ change: (inout Proxy) -> Void) {
    let index = proxies.firstIndex { $0.url >= url } ?? proxies.count
    if index == proxies.count || proxies[index].url != url { proxies.insert(Proxy(url: url), at: index) }
    change(&proxies[index])
  }

  /// The result as the backend API reports it.
  package var json: JSON {
    [
      "devices": .integer(Int64(devices)),
      "proxies": .array(
        proxies.map { proxy -> JSON in
          var json: JSON.Object = [
            "url": .string(proxy.url), "status": .optional(proxy.status.map(Int64.init)),
            "sent": .integer(Int64(proxy.sent)), "failed": .integer(Int64(proxy.failed)),
            "unknown": .integer(Int64(proxy.unknown)), "queued": .integer(Int64(proxy.queued)),
          ]
          if let reason = proxy.reason { json["reason"] = .string(reason) }
          return .object(json)
        }),
    ]
  }

  /// The result as text, for people who test their phones.
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
    reason = reason ?? other.reason
    sent += other.sent
    failed += other.failed
    unknown += other.unknown
    queued += other.queued
  }

  /// Adds the result of a push to a push service.
  ///
  /// - Parameter isFirst: whether it is the first push of its subscription, so that an ended subscription is
  ///   counted once.
  mutating func count(_ result: DeliveryResult, isFirst: Bool) {
    switch result {
    case .delivered, .passedOn: sent += 1
    case .queued: queued += 1
    case .refused: failed += 1
    case .ended:
      failed += 1
      if isFirst { unknown += 1 }
    }
  }
}
