import Foundation
import NIOCore

@testable import HTTP
@testable import Providers

/// Answers of FCM and of Google's endpoint for access tokens.
enum FCMAnswerTarget: FuzzTarget {
  static let name = "fcm-answer"

  static func run(_ bytes: [UInt8]) throws {
    let text = HTTPText(bytes)
    let outcome = Outcome(fcm: text.answer, now: { APNsAnswerTarget.now })
    try outcome.checkTimes()
    switch outcome {
    case .delivered:
      try check(text.status == 200, "only 200 is a success")
      let json = try? JSON.parse(text.body)
      // Foundation accepts more than RFC 8259 allows: other encodings, a byte order mark, several values.
      if let json { try check(json["name"] != nil, "an accepted message has a name") }
    case .dead(let reason, _):
      try check(text.status == 404 && reason == .fcmUnregistered, "only 404 with its code is an end")
    default: break
    }
    let issued = APNsAnswerTarget.now
    let granted = GoogleOAuth.read(status: text.status, body: ByteBuffer(bytes: text.body), issued: issued)
    if case .success(let token) = granted {
      try check(
        text.status == 200 && token.expiresAt <= issued.addingTimeInterval(86_400)
          && token.authorization.utf8.allSatisfy { (0x20...0x7E).contains($0) }, "a token fits into a header")
    }
  }
}
