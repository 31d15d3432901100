import Foundation
import HTTPClient
import NIOCore
import NIOFoundationCompat
import NIOHPACK

/// What the upstream bouncer says of notifications that it has taken.
package struct UpstreamReceipt: Sendable, Hashable {
  /// How many items its providers have accepted.
  var apple = 0
  var android = 0
  /// Names of items whose registrations it does not have (any more), in UTF-8.
  var gone: Set<[UInt8]> = []

  /// What became of each item. Nothing is believed of items that were not sent, nor more successes than items.
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
      // It does not tell how many were accepted: its totals are attempts.
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
  /// Maps the upstream bouncer's answer to notifications (`Documentation/Providers.md`, Upstream). A chat server is there
  /// what a token is at a provider: what others are answered shows whether the upstream bouncer is to blame.
  init(upstream answer: ProviderResponse, now: () -> Date) {
    let refusal = Refusal(answer)
    let notBefore = RetryAfter.date(answer.headers.first(name: "retry-after"), now: now())
    switch (answer.status, refusal?.code) {
    case (200, _):
      self =
        UpstreamReceipt(answer.body).map { .passedOn($0) }
        ?? .retry(.unreadableAnswer, notBefore: nil, scope: .tokenOrRoute)
    case (401, _): self = .retry(.upstreamKeyRefused, notBefore: notBefore, scope: .tokenOrRoute)
    case (403, _?): self = .retry(.upstreamRealmRefused, notBefore: notBefore, scope: .tokenOrRoute)
    case (429, _): self = .retry(.tooManyRequests, notBefore: notBefore, scope: .tokenOrRoute)
    case (413, _): self = .rejected(.payloadTooLarge)
    case (400..<500, "PUSH_NOTIFICATIONS_DISALLOWED"), (400..<500, "INVALID_ZULIP_SERVER"):
      self = .rejected(.upstreamDisallows)
    default: self = Outcome(unreadableUpstream: answer, refusal, notBefore) ?? .rejected(.requestRefused)
    }
  }

  /// Maps its answer to another call: only whether it is one.
  init(upstreamCall answer: ProviderResponse, now: () -> Date) {
    let notBefore = RetryAfter.date(answer.headers.first(name: "retry-after"), now: now())
    self = Outcome(unreadableUpstream: answer, Refusal(answer), notBefore) ?? .passedOn(UpstreamReceipt())
  }

  /// Nil for the answer of a bouncer that works.
  private init?(unreadableUpstream answer: ProviderResponse, _ refusal: Refusal?, _ notBefore: Date?) {
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

  private struct Refusal: Decodable {
    let msg: String
    let code: String?

    init?(_ answer: ProviderResponse) {
      guard let refusal = try? JSONDecoder().decode(Self.self, from: answer.body) else { return nil }
      self = refusal
    }
  }
}
