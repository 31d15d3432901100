package import Foundation
import HTTP
import NIOCore
import NIOHPACK
package import Providers
import Synchronization

/// A notification as it reached the simulator.
package struct Delivery: Sendable {
  /// The service that it was sent to.
  package enum Provider: String, Sendable, CaseIterable {
    case apns, fcm
    case webPush = "webpush"
  }

  /// Its place in the order of arrival, from 1; refused ones are counted in.
  package internal(set) var sequence = 0
  /// Apple's service, Google's or a push service of Web Push.
  package let provider: Provider
  /// The device token (APNs: as in the path), the registration token or installation id, or the
  /// subscription's id.
  package let token: String
  /// APNs: `apns-topic`. FCM: the project id. Web Push: the origin that it was sent to.
  package let target: String
  /// APNs: the environment that it was sent to; nil if the provider token was not accepted.
  package let environment: APNsCredential.Environment?
  /// The request's header fields in their order, names in lower case, without pseudo-headers and `authorization`.
  package let headers: [(name: String, value: String)]
  /// When it had arrived whole.
  package let receivedAt: Date
  /// The HTTP status of the answer.
  package let status: Int
  /// The reason (APNs, Web Push) or error code (FCM) of a refusal.
  package let reason: String?
  /// The answer's `apns-id`, FCM's message name, or the push service's message id.
  package let id: String
  var body: ByteBuffer

  /// Whether it was answered with 200, or by the push service with 201.
  package var accepted: Bool { (200..<300).contains(status) }

  /// The request's body: what APNs hands to the app, FCM's `{"message": {...}}`, or what only the phone can open.
  package var payload: Data { Data(body.readableBytesView) }

  /// The value of a header field; `name` in lower case.
  package func header(_ name: String) -> String? {
    headers.first { $0.name == name }?.value
  }

  /// As the control calls show it.
  var json: JSON {
    let place =
      switch provider {
      case .apns: "topic"
      case .fcm: "project"
      case .webPush: "origin"
      }
    let payload: JSON =
      provider == .webPush
      ? .string(payload.base64EncodedString())
      : (try? JSON.parse(body)) ?? .string(String(buffer: body))
    let time = receivedAt.formatted(.iso8601.year().month().day().time(includingFractionalSeconds: true))
    var shown: JSON.Object = [
      "sequence": .integer(Int64(sequence)), "provider": .string(provider.rawValue), "token": .string(token),
      place: .string(target),
      "headers": .object(JSON.Object(headers.map { .init($0.name, .string($0.value)) })), "payload": payload,
      "received_at": .string(time + "Z"), "status": .integer(Int64(status)), "accepted": .bool(accepted),
    ]
    shown["environment"] = (environment?.rawValue).map(JSON.string)
    shown["reason"] = reason.map(JSON.string)
    shown["id"] = .string(id)
    return .object(shown)
  }
}

extension [Delivery] {
  /// `{"next": ..., "NAME": [...]}`, written one by one: there may be a hundred thousand.
  func reply(next: Int, as name: String) -> Reply {
    var bytes = [UInt8](#"{"next":\#(next),"\#(name)":["#.utf8)
    for (index, delivery) in enumerated() {
      if index > 0 { bytes.append(UInt8(ascii: ",")) }
      delivery.json.write(to: &bytes)
    }
    bytes.append(contentsOf: "]}".utf8)
    return .json(200, ByteBuffer(bytes: bytes))
  }
}

extension HPACKHeaders {
  /// Those that a delivery keeps: all but the credential.
  var kept: [(name: String, value: String)] {
    var kept: [(name: String, value: String)] = []
    kept.reserveCapacity(count)
    for (name, value, _) in self where name != "authorization" { kept.append((name, value)) }
    return kept
  }
}

/// What happened since the start or the last reset.
package struct Counts: Sendable, Equatable, Encodable {
  // Notifications accepted by each provider, and those refused by any of them.
  package var apns = 0
  package var fcm = 0
  package var webPush = 0
  package var refused = 0
  /// Connections that carried or could carry pushes: all to APNs, and those to the other ports that pushed.
  package var connections = 0
  /// Different provider tokens seen by APNs.
  package var jwts = 0
  /// Different VAPID tokens seen by the push service.
  package var vapidTokens = 0
  /// Access tokens issued.
  package var oauthTokens = 0

  private enum CodingKeys: String, CodingKey {
    case apns, fcm, refused, connections, jwts
    case webPush = "webpush"
    case vapidTokens = "vapid_tokens"
    case oauthTokens = "oauth_tokens"
  }
}

/// What arrived, in order.
final class DeliveryLog: Sendable {
  struct Contents {
    /// The last sequence number given out. It outlives a reset, so that a reader never sees a number twice.
    var last = 0
    var lastAccepted = 0
    /// Accepted since the last reset.
    var accepted = 0
    fileprivate var entries = CircularBuffer<Delivery>()

    /// The places of the kept entries after `sequence`: they are numbered without a gap.
    fileprivate func places(after sequence: Int) -> Range<Int> {
      entries.count - min(entries.count, max(0, last - sequence))..<entries.count
    }
  }

  private let contents = Mutex(Contents())
  private let limit: Int

  init(limit: Int) {
    self.limit = max(1, limit)
  }

  /// Records a delivery. `kept` gets the sequence number before any reader sees it.
  func record(_ delivery: Delivery, kept: (Int) -> Void) {
    contents.withLock { contents in
      contents.last += 1
      var delivery = delivery
      delivery.sequence = contents.last
      // The body is a slice of what the connection had read, which would be kept whole: 30 KB for each of a million.
      delivery.body = ByteBuffer(buffer: delivery.body)
      contents.entries.append(delivery)
      if delivery.accepted {
        contents.lastAccepted = contents.last
        contents.accepted += 1
      }
      if contents.entries.count > limit { contents.entries.removeFirst() }
      kept(contents.last)
    }
  }

  /// Entries after `sequence`, oldest first, and the number to ask from next time.
  func entries(after sequence: Int, refused: Bool, limit: Int) -> (next: Int, deliveries: [Delivery]) {
    contents.withLock { contents in
      var found: [Delivery] = []
      for place in contents.places(after: sequence) {
        let entry = contents.entries[offset: place]
        guard refused || entry.accepted else { continue }
        guard found.count < limit else { return (found.last?.sequence ?? sequence, found) }
        found.append(entry)
      }
      return (contents.last, found)
    }
  }

  /// Those of the entries that are still kept, in this order.
  func entries(numbered sequences: [Int]) -> [Delivery] {
    contents.withLock { contents in
      sequences.compactMap { sequence in
        contents.places(after: sequence - 1).first.map { contents.entries[offset: $0] }
          .flatMap { $0.sequence == sequence ? $0 : nil }
      }
    }
  }

  /// Accepted since the last reset.
  var accepted: Int { contents.withLock(\.accepted) }

  func reset() {
    contents.withLock { contents in
      contents.entries = CircularBuffer()
      contents.accepted = 0
    }
  }

  /// Returns once `condition` holds, `timeout` is over or the task is cancelled.
  func wait(until condition: (Contents) -> Bool, _ timeout: Duration) async {
    let end = ContinuousClock.now + timeout
    while !contents.withLock({ condition($0) }), .now < end, !Task.isCancelled {
      try? await Task.sleep(for: .milliseconds(10))
    }
  }
}
