import Foundation
import HTTPClient
import NIOCore
import NIOFoundationCompat
import NIOHPACK

/// The upstream bouncer's answer to notifications that it has accepted.
package struct UpstreamReceipt: Sendable, Hashable {
  /// The number of items that APNs has accepted there.
  var apple = 0
  /// The number of items that FCM has accepted there.
  var android = 0
  /// Names of items whose registrations it does not have (any more), in UTF-8.
  var gone: Set<[UInt8]> = []

  /// The outcome of each item, by its registration. Ignores names of items that were not sent, and successes beyond their
  /// number.
  func outcomes(of push: UpstreamPush) -> [Int64: Outcome] {
    var counted = [true: apple, false: android]
    var outcomes: [Int64: Outcome] = [:]
    for item in push.items {
      if gone.contains(Array(item.name.utf8)) {
        outcomes[item.registration] = .dead(.upstreamForgot, since: nil)
      } else if counted[item.isAPNs, default: 0] > 0 {
        counted[item.isAPNs, default: 0] -= 1
        outcomes[item.registration] = .delivered
      } else {
        outcomes[item.registration] = .passedOn(UpstreamReceipt())
      }
    }
    return outcomes
  }
}

extension UpstreamReceipt {
  private struct Encrypted: Decodable {
    let result: String
    let apple_successfully_sent_count, android_successfully_sent_count: Int
    let delete_token_ids: [String]
  }

  private struct Legacy: Decodable {
    struct Devices: Decodable {
      let apple_devices, android_devices: [String]
    }

    let result: String
    let deleted_devices: Devices
  }

  /// Reads the answer to `push/e2ee/notify` or `push/notify`; nil for anything else.
  init?(_ body: ByteBuffer) {
    let decoder = JSONDecoder()
    if let answer = try? decoder.decode(Encrypted.self, from: body), answer.result == "success" {
      apple = answer.apple_successfully_sent_count
      android = answer.android_successfully_sent_count
      gone = Set(answer.delete_token_ids.map { Array($0.utf8) })
    } else if let answer = try? decoder.decode(Legacy.self, from: body), answer.result == "success" {
      // It does not say how many were accepted: its totals count attempts.
      apple = .max
      android = .max
      let devices = answer.deleted_devices
      gone = Set((devices.apple_devices + devices.android_devices).map { Array($0.utf8) })
    } else {
      return nil
    }
  }
}

extension Outcome {
  /// Maps the upstream bouncer's answer to notifications (`Documentation/Providers.md`, Upstream). Most refusals
  /// concern one chat server; the answers to others show whether the upstream bouncer itself is to blame.
  init(upstream answer: ProviderResponse, now: () -> Date) {
    let refusal = ErrorBody(answer)
    let notBefore = RetryAfter.date(answer.headers.first(name: "retry-after"), now: now())
    switch (answer.status, refusal?.code) {
    case (200, _):
      let mayBeTaken = answer.isCut || Success(answer) != nil
      self =
        UpstreamReceipt(answer.body).map { .passedOn($0) }
        ?? .retry(mayBeTaken ? .unreadableReceipt : .unreadableAnswer, notBefore: nil, scope: .tokenOrRoute)
    case (401, _): self = .retry(.upstreamKeyRefused, notBefore: notBefore, scope: .tokenOrRoute)
    case (403, _?): self = .retry(.upstreamRealmRefused, notBefore: notBefore, scope: .tokenOrRoute)
    case (429, _): self = .retry(.tooManyRequests, notBefore: notBefore, scope: .tokenOrRoute)
    case (413, _): self = .rejected(.payloadTooLarge)
    case (400..<500, "PUSH_NOTIFICATIONS_DISALLOWED"), (400..<500, "INVALID_ZULIP_SERVER"):
      self = .rejected(.upstreamDisallows)
    default: self = Outcome(unreadableUpstream: answer, refusal, notBefore) ?? .rejected(.requestRefused)
    }
  }

  /// Maps its answer to any other call: `passedOn` for every answer of a working bouncer, whatever it says.
  init(upstreamCall answer: ProviderResponse, now: () -> Date) {
    let notBefore = RetryAfter.date(answer.headers.first(name: "retry-after"), now: now())
    self = Outcome(unreadableUpstream: answer, ErrorBody(answer), notBefore) ?? .passedOn(UpstreamReceipt())
  }

  /// Nil for the answer of a working bouncer.
  private init?(unreadableUpstream answer: ProviderResponse, _ refusal: ErrorBody?, _ notBefore: Date?) {
    switch answer.status {
    case 200 where Success(answer) != nil: return nil
    case 400..<500
    where refusal != nil && answer.status != 404 && answer.status != 405 && answer.status != 408:
      return nil
    case 500...: self = .retry(.serverError, notBefore: notBefore, scope: .tokenOrRoute)
    // What is at this address is no bouncer, or its answer to one server is malformed.
    default: self = .retry(.unreadableAnswer, notBefore: notBefore, scope: .tokenOrRoute)
    }
  }

  private struct Success: Decodable {
    let result: String

    init?(_ answer: ProviderResponse) {
      guard let success = try? JSONDecoder().decode(Self.self, from: answer.body), success.result == "success"
      else { return nil }
      self = success
    }
  }

  private struct ErrorBody: Decodable {
    let msg: String
    let code: String?

    init?(_ answer: ProviderResponse) {
      guard let refusal = try? JSONDecoder().decode(Self.self, from: answer.body) else { return nil }
      self = refusal
    }
  }
}
