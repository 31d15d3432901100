import Foundation
import HTTPClient
import NIOCore
import NIOHPACK
import Providers

/// Stand-ins that misinterpret providers' answers.
extension StandIn {
  static let answers: [StandIn] = [
    reading("outage-is-death") { answer in
      guard case .success(let response) = answer, response.status >= 500 else { return answer }
      return dead(response)
    },
    reading("death-without-its-time") { answer in
      guard case .success(let response) = answer, response.status == 410 else { return answer }
      return .success(made(410, #"{"reason":"Unregistered"}"#))
    },
    reading("nothing-is-death") { answer in
      guard case .success(let response) = answer, [404, 410].contains(response.status) else { return answer }
      return .success(made(503, ""))
    },
    // A refusal of one device is taken for an outage of the provider, which pauses it for ten minutes.
    reading("blames-the-provider") { answer in
      guard case .success(let response) = answer, [401, 429].contains(response.status) else { return answer }
      let isApple = String(buffer: response.body).contains(#""reason""#)
      let body =
        isApple ? #"{"reason":"ServiceUnavailable"}"# : #"{"error":{"code":503,"status":"UNAVAILABLE"}}"#
      return .success(
        ProviderResponse(status: 503, headers: ["retry-after": "600"], body: ByteBuffer(string: body)))
    },
    .guardBelievesAll, .newIDs, .hasNoDeadline,
  ]

  static func reading(
    _ name: String,
    _ read:
      @escaping @Sendable (Result<ProviderResponse, TransportFailure>) -> Result<
        ProviderResponse, TransportFailure
      >
  ) -> StandIn {
    StandIn(name) { standIn in standIn.answer = { answer, _ in read(answer) } }
  }

  private static func made(_ status: Int, _ body: String) -> ProviderResponse {
    ProviderResponse(status: status, headers: [:], body: ByteBuffer(string: body))
  }

  /// The answer of Apple or Google for a dead token.
  static func dead(_ response: ProviderResponse) -> Result<ProviderResponse, TransportFailure> {
    String(buffer: response.body).contains(#""error""#)
      ? .success(
        made(
          404,
          #"{"error":{"code":404,"status":"NOT_FOUND","details":[{"@type":"type.googleapis.com/google.firebase.fcm.v1.FcmError","errorCode":"UNREGISTERED"}]}}"#
        )) : .success(made(410, #"{"reason":"Unregistered"}"#))
  }

  /// A guard that accepts every report of a dead token, however many come at once.
  private static let guardBelievesAll: StandIn = {
    var standIn = reading("believes-everything") { answer in
      guard case .success(let response) = answer else { return answer }
      let body = String(buffer: response.body)
      return ["BadDeviceToken", "SENDER_ID_MISMATCH"].contains(where: body.contains) ? dead(response) : answer
    }
    standIn.connection = StandIn.neverHolds.connection
    return standIn
  }()

  /// Each try has an `apns-id` of its own, so that a phone shows a notification that comes twice two times.
  private static let newIDs = StandIn("new-ids") { standIn in
    standIn.push = { push in
      var push = push
      if !push.id.isEmpty { push.id = UUID().uuidString }
      return push
    }
  }

  private static let hasNoDeadline = StandIn("no-deadline") { standIn in
    standIn.hasNoDeadline = true
  }
}
