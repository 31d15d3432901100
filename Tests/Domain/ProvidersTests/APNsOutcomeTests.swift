import Foundation
import NIOCore
import NIOHPACK
import Testing

@testable import HTTPClient
@testable import Providers

/// Tests every reason that Apple lists, and unlisted answers.
@Suite("What APNs' answers mean")
struct APNsOutcomeTests {
  static let now = Date(timeIntervalSince1970: 1_800_000_000)

  struct Row: Sendable, CustomTestStringConvertible {
    let status: Int
    let reason: String
    let outcome: Outcome

    init(_ status: Int, _ reason: String, _ outcome: Outcome) {
      (self.status, self.reason, self.outcome) = (status, reason, outcome)
    }

    var testDescription: String { "\(status) \(reason)" }
  }

  static func outcome(_ status: Int, _ body: String, retryAfter: String? = nil) -> Outcome {
    Outcome(apns: ProviderResponse(status: status, body, retryAfter: retryAfter)) { now }
  }

  static let rows: [Row] = [
    Row(400, "BadDeviceToken", .suspect(.badDeviceToken)),
    Row(400, "DeviceTokenNotForTopic", .suspect(Reason("DeviceTokenNotForTopic"))),
    Row(400, "TopicDisallowed", .misconfigured(.topicDisallowed)),
    Row(400, "BadTopic", .misconfigured(Reason("BadTopic"))),
    Row(400, "MissingTopic", .misconfigured(.missingTopic)),
    Row(400, "BadCollapseId", .rejected(.badCollapseID)),
    Row(400, "BadExpirationDate", .rejected(.badExpirationDate)),
    Row(400, "BadMessageId", .rejected(.badMessageID)),
    Row(400, "BadPriority", .rejected(.badPriority)),
    Row(400, "InvalidPushType", .rejected(.invalidPushType)),
    Row(400, "DuplicateHeaders", .rejected(.duplicateHeaders)),
    Row(400, "PayloadEmpty", .rejected(.payloadEmpty)),
    Row(400, "MissingDeviceToken", .rejected(.missingDeviceToken)),
    Row(400, "IdleTimeout", .retry(.idleTimeout, notBefore: nil, scope: .route)),
    Row(403, "ExpiredProviderToken", .retry(.expiredProviderToken, notBefore: nil, scope: .route)),
    Row(403, "InvalidProviderToken", .misconfigured(.invalidProviderToken)),
    Row(403, "MissingProviderToken", .misconfigured(.missingProviderToken)),
    Row(403, "UnrelatedKeyIdInToken", .misconfigured(.unrelatedKeyIDInToken)),
    Row(403, "BadEnvironmentKeyIdInToken", .misconfigured(.badEnvironmentKeyIDInToken)),
    Row(403, "BadEnvironmentKeyInToken", .misconfigured(.badEnvironmentKeyInToken)),
    Row(403, "BadCertificate", .misconfigured(Reason("BadCertificate"))),
    Row(403, "BadCertificateEnvironment", .misconfigured(Reason("BadCertificateEnvironment"))),
    Row(403, "Forbidden", .misconfigured(.forbidden)),
    Row(404, "BadPath", .rejected(.badPath)),
    Row(405, "MethodNotAllowed", .rejected(.methodNotAllowed)),
    Row(410, "Unregistered", .dead(.unregistered, since: nil)),
    Row(410, "ExpiredToken", .dead(Reason("ExpiredToken"), since: nil)),
    Row(413, "PayloadTooLarge", .rejected(.payloadTooLarge)),
    Row(429, "TooManyRequests", .retry(.tooManyRequests, notBefore: now + 5, scope: .token)),
    Row(
      429, "TooManyProviderTokenUpdates", .retry(.tooManyProviderTokenUpdates, notBefore: nil, scope: .route)),
    Row(500, "InternalServerError", .retry(.internalServerError, notBefore: nil, scope: .provider)),
    Row(503, "ServiceUnavailable", .retry(.serviceUnavailable, notBefore: nil, scope: .provider)),
    Row(503, "Shutdown", .retry(.shutdown, notBefore: nil, scope: .provider)),
    // What no page lists: the status says whose fault it is, and nobody dies of it.
    Row(400, "SomethingNew", .rejected(.unknown)),
    Row(403, "SomethingNew", .misconfigured(.unknown)),
    Row(410, "SomethingNew", .suspect(.unknown)),
    Row(429, "SomethingNew", .retry(.unknown, notBefore: nil, scope: .route)),
    Row(500, "SomethingNew", .retry(.serverError, notBefore: nil, scope: .provider)),
    Row(400, "Unregistered", .suspect(.unregistered)),
    Row(500, "Unregistered", .retry(.serverError, notBefore: nil, scope: .provider)),
    Row(503, "BadDeviceToken", .retry(.serverError, notBefore: nil, scope: .provider)),
    // Our own names are not for the peer to use.
    Row(400, "timeout", .rejected(.unknown)),
  ]

  @Test func `No reason of the table is left out`() {
    #expect(Set(Reason.apns.map(\.reason.rawValue)).subtracting(Self.rows.map(\.reason)) == [])
  }

  @Test(arguments: rows) func `Each row means what the table says`(row: Row) {
    #expect(Self.outcome(row.status, #"{"reason":"\#(row.reason)"}"#) == row.outcome)
  }

  @Test func `Accepted is delivered`() {
    #expect(Self.outcome(200, "") == .delivered)
  }

  @Test func `The time of a 410 is in milliseconds`() {
    let since = Date(timeIntervalSince1970: 1_754_385_290.123)
    #expect(
      Self.outcome(410, #"{"reason":"Unregistered","timestamp":1754385290123}"#)
        == .dead(.unregistered, since: since))
  }

  @Test(
    arguments: [400, 403, 404, 410, 413, 429],
    ["", "<html>Unregistered</html>", #"{"reason":"Unregis"#, "[]", #"{"reason":410}"#, "null"])
  func `What cannot be read never blames the token`(status: Int, body: String) {
    #expect(Self.outcome(status, body) == .retry(.unreadableAnswer, notBefore: nil, scope: .route))
  }

  @Test(arguments: [500, 502, 503, 504], ["", "<html>", #"{"rea"#])
  func `An outage without a reason is one`(status: Int, body: String) {
    #expect(Self.outcome(status, body) == .retry(.serverError, notBefore: nil, scope: .provider))
  }

  @Test func `Retry-After is heeded where something may be retried`() {
    let later = Self.now.addingTimeInterval(120)
    #expect(
      Self.outcome(503, #"{"reason":"Shutdown"}"#, retryAfter: "120")
        == .retry(.shutdown, notBefore: later, scope: .provider))
    #expect(
      Self.outcome(503, "<html>", retryAfter: "120")
        == .retry(.serverError, notBefore: later, scope: .provider))
    #expect(
      Self.outcome(429, #"{"reason":"TooManyRequests"}"#, retryAfter: "120")
        == .retry(.tooManyRequests, notBefore: later, scope: .token))
  }

  static let remedies: [String: Remedy] = [
    "ExpiredProviderToken": Remedy(retired: .untilNow, again: .withAnotherToken),
    "UnrelatedKeyIdInToken": Remedy(retired: .untilNow, again: .atOnce),
    "TooManyProviderTokenUpdates": Remedy(retired: .this, again: .atOnce),
    "IdleTimeout": Remedy(retired: .this, again: .atOnce),
    "InvalidProviderToken": Remedy(retired: .all),
    "TopicDisallowed": Remedy(retired: .this),
  ]

  @Test(arguments: rows) func `Each row asks for its remedy, and an outage for another connection`(row: Row) {
    let remedy = APNs.remedy(after: Self.outcome(row.status, #"{"reason":"\#(row.reason)"}"#))
    let outage = row.status >= 500 ? Remedy(retired: .this) : Remedy()
    #expect(remedy == Self.remedies[row.reason] ?? outage)
  }

  @Test(arguments: [
    (TransportFailure.timeout, Reason.timeout, Outcome.Scope.route),
    (.cancelled, .cancelled, .caller),
    (.unconnected(.connectionRefused), .connectionRefused, .route),
    (.unconnected(.certificateExpired), .certificateExpired, .route),
    (.unconnected(.proxyForbidden), .proxyForbidden, .route),
    (.connectionLost, .connectionLost, .connection),
    (.silent, .timeout, .connection),
    (.streamReset, .streamReset, .connection),
    (.refused, .refused, .connection),
    (.overloaded, .overloaded, .caller),
    (.shuttingDown, .shuttingDown, .caller),
    (.abandoned, .abandoned, .process),
  ])
  func `No answer is another chance later`(failure: TransportFailure, reason: Reason, scope: Outcome.Scope) {
    #expect(Outcome(failure) == .retry(reason, notBefore: nil, scope: scope))
  }

  @Test(arguments: [
    (
      TokenFailure.unavailable(ConnectionFailure.connectionRefused.signInReason),
      Outcome.retry(ConnectionFailure.connectionRefused.signInReason, notBefore: nil, scope: .route)
    ),
    (.refused(.invalidGrant), .misconfigured(.invalidGrant)),
  ])
  func `Without a token nothing is learned of the notification`(failure: TokenFailure, outcome: Outcome) {
    #expect(Outcome(failure) == outcome)
  }
}

extension ProviderResponse {
  /// An answer by what is looked at.
  init(status: Int, _ body: String, retryAfter: String? = nil, isCut: Bool = false) {
    let headers = HPACKHeaders(retryAfter.map { [("retry-after", $0)] } ?? [])
    self.init(status: status, headers: headers, body: ByteBuffer(string: body), isCut: isCut)
  }
}
