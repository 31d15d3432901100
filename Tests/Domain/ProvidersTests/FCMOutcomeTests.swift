import Foundation
import NIOCore
import Testing

@testable import HTTPClient
@testable import Providers

/// Every row of `Documentation/Providers.md`, FCM.
@Suite("What FCM's answers mean")
struct FCMOutcomeTests {
  static let now = Date(timeIntervalSince1970: 1_800_000_000)

  static func outcome(_ status: Int, _ body: String, retryAfter: String? = nil) -> Outcome {
    Outcome(fcm: ProviderResponse(status: status, body, retryAfter: retryAfter)) { now }
  }

  /// An error as Google writes it.
  static func error(
    _ code: Int, _ status: String, fcm: String? = nil, message: String = "An error.",
    violations: [String] = []
  ) -> String {
    var details: [String] = []
    if !violations.isEmpty {
      let fields = violations.map { #"{"field":"\#($0)","description":"Invalid value"}"# }.joined(
        separator: ",")
      details.append(#"{"@type":"type.googleapis.com/google.rpc.BadRequest","fieldViolations":[\#(fields)]}"#)
    }
    if let fcm {
      details.append(
        #"{"@type":"type.googleapis.com/google.firebase.fcm.v1.FcmError","errorCode":"\#(fcm)"}"#)
    }
    let list = details.isEmpty ? "" : #","details":[\#(details.joined(separator: ","))]"#
    return #"{"error":{"code":\#(code),"message":"\#(message)","status":"\#(status)"\#(list)}}"#
  }

  static let badToken = "The registration token is not a valid FCM registration token"

  static let rows: [(Int, String, Outcome)] = [
    (
      400, error(400, "INVALID_ARGUMENT", fcm: "INVALID_ARGUMENT", violations: ["message.data"]),
      .rejected(.fcmInvalidArgument)
    ),
    (
      400, error(400, "INVALID_ARGUMENT", violations: ["message.android.ttl"]), .rejected(.fcmInvalidArgument)
    ),
    (
      400,
      error(
        400, "INVALID_ARGUMENT", fcm: "INVALID_ARGUMENT", message: badToken, violations: ["message.data"]),
      .rejected(.fcmInvalidArgument)
    ),
    (400, error(400, "INVALID_ARGUMENT", fcm: "INVALID_ARGUMENT"), .rejected(.fcmInvalidArgument)),
    (400, error(400, "INVALID_ARGUMENT", message: badToken), .rejected(.fcmInvalidArgument)),
    (
      400, error(400, "INVALID_ARGUMENT", fcm: "INVALID_ARGUMENT", message: badToken),
      .suspect(.invalidRegistrationToken)
    ),
    (
      400, error(400, "INVALID_ARGUMENT", fcm: "INVALID_ARGUMENT", violations: ["message.token"]),
      .suspect(.invalidRegistrationToken)
    ),
    (
      400, error(400, "INVALID_ARGUMENT", fcm: "INVALID_ARGUMENT", violations: ["message.fid"]),
      .suspect(.invalidRegistrationToken)
    ),
    (
      400,
      error(
        400, "INVALID_ARGUMENT", fcm: "INVALID_ARGUMENT", violations: ["message.fid", "message.data"]),
      .rejected(.fcmInvalidArgument)
    ),
    (
      401, error(401, "UNAUTHENTICATED", fcm: "THIRD_PARTY_AUTH_ERROR"),
      .retry(.fcmThirdPartyAuthError, notBefore: nil, scope: .tokenOrRoute)
    ),
    (
      401, error(401, "UNAUTHENTICATED", fcm: "APNS_AUTH_ERROR"),
      .retry(.fcmThirdPartyAuthError, notBefore: nil, scope: .tokenOrRoute)
    ),
    (401, error(401, "UNAUTHENTICATED"), .misconfigured(.fcmUnauthenticated)),
    (403, error(403, "PERMISSION_DENIED", fcm: "SENDER_ID_MISMATCH"), .suspect(.fcmSenderIDMismatch)),
    (403, error(403, "PERMISSION_DENIED"), .misconfigured(.fcmPermissionDenied)),
    (404, error(404, "NOT_FOUND", fcm: "UNREGISTERED"), .dead(.fcmUnregistered, since: nil)),
    (404, error(404, "NOT_FOUND"), .misconfigured(.fcmNotFound)),
    (404, error(404, "UNREGISTERED"), .suspect(.fcmUnregistered)),
    (
      429, error(429, "RESOURCE_EXHAUSTED", fcm: "QUOTA_EXCEEDED"),
      .retry(.fcmQuotaExceeded, notBefore: now.addingTimeInterval(60), scope: .tokenOrRoute)
    ),
    (
      429, error(429, "RESOURCE_EXHAUSTED"),
      .retry(.fcmQuotaExceeded, notBefore: now.addingTimeInterval(60), scope: .tokenOrRoute)
    ),
    (500, error(500, "INTERNAL", fcm: "INTERNAL"), .retry(.fcmInternal, notBefore: nil, scope: .provider)),
    (
      503, error(503, "UNAVAILABLE", fcm: "UNAVAILABLE"),
      .retry(.fcmUnavailable, notBefore: nil, scope: .provider)
    ),
    (
      400, error(400, "UNKNOWN", fcm: "UNSPECIFIED_ERROR"),
      .retry(Reason("UNSPECIFIED_ERROR"), notBefore: nil, scope: .route)
    ),
    (500, error(500, "NEW", fcm: "NEW"), .retry(.unknown, notBefore: nil, scope: .provider)),
    (400, error(400, "FAILED_PRECONDITION"), .rejected(.unknown)),
    (
      500, error(500, "INTERNAL", fcm: "UNREGISTERED"),
      .retry(.fcmUnregistered, notBefore: nil, scope: .provider)
    ),
    (404, "<html>Not Found</html>", .retry(.unreadableAnswer, notBefore: nil, scope: .route)),
    (404, "", .retry(.unreadableAnswer, notBefore: nil, scope: .route)),
    (
      404, #"{"error":{"code":404,"details":[{"@type":"#,
      .retry(.unreadableAnswer, notBefore: nil, scope: .route)
    ),
    (502, "<html>Bad Gateway</html>", .retry(.serverError, notBefore: nil, scope: .provider)),
    (503, "", .retry(.serverError, notBefore: nil, scope: .provider)),
    (200, "<html>Log in to the network</html>", .retry(.unreadableAnswer, notBefore: nil, scope: .route)),
    (302, "", .retry(.unreadableAnswer, notBefore: nil, scope: .route)),
  ]

  /// What `Reason+FCM.swift` says of a code holds without a line of code, whatever status it comes with.
  @Test(arguments: [401, 403, 404]) func `A row of the table is enough`(status: Int) throws {
    for row in Reason.fcm where row.reason != .fcmInvalidArgument {
      let reason = row.reason
      let expected: Outcome =
        switch try #require(row.statement) {
        case .dead: status == 404 ? .dead(reason, since: nil) : .suspect(reason)
        case .suspect: .suspect(reason)
        case .misconfigured: .misconfigured(reason)
        case .rejected: .rejected(reason)
        case .retry(let scope): .retry(reason, notBefore: nil, scope: scope)
        }
      #expect(
        Self.outcome(status, Self.error(status, "OTHER", fcm: reason.rawValue)) == expected, "\(reason)")
    }
  }

  @Test(arguments: rows) func `Each row means what the table says`(row: (Int, String, Outcome)) {
    #expect(Self.outcome(row.0, row.1) == row.2)
  }

  @Test(arguments: rows) func `Only an access token that is refused asks for another`(
    row: (Int, String, Outcome)
  ) {
    let isRefused = row.2 == .misconfigured(.fcmUnauthenticated)
    #expect(FCM.remedy(after: row.2) == (isRefused ? Remedy(again: .withAnotherToken) : Remedy()))
  }

  @Test(arguments: [
    #"{"name":"projects/p/messages/1"}"#, "{\n  \"name\": \"projects/p/messages/0:15%31bd\"\n}\n",
    #"{"name":""}"#,
    #"{"x":1,"name":"y"}"#, #"{"name":"projects/\u0070","x":{}}"#,
  ])
  func `Accepted is delivered`(body: String) {
    #expect(Self.outcome(200, body) == .delivered)
  }

  @Test(arguments: [
    "", "{}", #"{"name":"projects/p/messages/1""#, #"{"name":"projects/p/mess"#, #"{"name":1}"#, #"["name"]"#,
    #"{"name":"projects/p"}}"#, #"{"name":"projects/p" "x":1}"#,
  ])
  func `What is not Google's, or cut, is no success`(body: String) {
    #expect(Self.outcome(200, body) == .retry(.unreadableAnswer, notBefore: nil, scope: .route))
  }

  @Test(arguments: ["", "{", #"{"name":"projects/p/mess"#])
  func `A success that is cut may be one`(body: String) {
    let outcome = Outcome(fcm: ProviderResponse(status: 200, body, isCut: true)) { Self.now }
    #expect(outcome == .retry(.connectionLost, notBefore: nil, scope: .connection) && outcome.isInDoubt)
    let failure = Outcome(fcm: ProviderResponse(status: 503, body, isCut: true)) { Self.now }
    #expect(failure == .retry(.serverError, notBefore: nil, scope: .provider) && !failure.isInDoubt)
  }

  @Test func `Retry-After goes before our own pause`() {
    let body = Self.error(429, "RESOURCE_EXHAUSTED", fcm: "QUOTA_EXCEEDED")
    #expect(
      Self.outcome(429, body, retryAfter: "10")
        == .retry(.fcmQuotaExceeded, notBefore: Self.now.addingTimeInterval(10), scope: .tokenOrRoute))
    #expect(
      Self.outcome(503, "", retryAfter: "Fri, 15 Jan 2027 08:05:00 GMT")
        == .retry(.serverError, notBefore: Date(timeIntervalSince1970: 1_800_000_300), scope: .provider))
  }

  @Test(arguments: [
    ("0", 0.0), ("120", 120), (" 7 ", 7), ("1.5", 1.5), ("999999999999999999999999", 3600),
    ("Fri, 15 Jan 2027 08:01:00 GMT", 60), ("Friday, 15-Jan-27 08:01:00 GMT", 60),
    ("Fri Jan 15 08:01:00 2027", 60),
    ("Fri, 15 Jan 2021 08:00:00 GMT", 0), ("Sunday, 06-Nov-94 08:49:37 GMT", 0),
    ("Fri, 15 Jan 2038 08:00:00 GMT", 3600),
  ])
  func `Retry-After is understood in all its forms`(value: String, seconds: Double) {
    #expect(RetryAfter.date(value, now: Self.now) == Self.now.addingTimeInterval(seconds))
  }

  @Test(arguments: [
    "", "soon", "-5", ".", "1.5.2", "15 Jan", "\u{0}", "١٢", "Fri, 15 Jan 2027 08:root01:00 GMT",
    "Fri, 15 Jan 2027 08:01:00 CET", "Fri, 32 Jan 2027 08:01:00 GMT", "Fri, 15 Jam 2027 08:01:00 GMT",
    "Fri, 15 Jan 2027 24:01:00 GMT", "Fri, 15 Jan 20270 08:01:00 GMT", "Fri Jan 15 08:01:00",
  ])
  func `A Retry-After that makes no sense is as none`(value: String) {
    #expect(RetryAfter.date(value, now: Self.now) == nil)
  }
}
