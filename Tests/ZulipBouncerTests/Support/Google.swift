import CryptoExtras
import Foundation
import HTTP
import Hummingbird
import Providers
import Synchronization
import TestSupport
import Testing

/// Google's OAuth and FCM as far as one project needs them, over HTTP/1.1 in clear.
final class Google: Sendable {
  /// What arrived at FCM.
  struct Message: Sendable, Equatable {
    let token: String
    let data: JSON
    let priority: String?
  }

  let url: URL
  let credential: FCMCredential
  private let state: State

  private final class State: Sendable {
    let messages = Mutex<[Message]>([])
    let gone = Mutex<Set<String>>([])
  }

  private init(port: Int, state: State) throws {
    url = try #require(URL(string: "http://127.0.0.1:\(port)"))
    credential = FCMCredential(
      name: "test", projectID: "project", clientEmail: "push@project.example", privateKeyID: "key",
      privateKey: try _RSA.Signing.PrivateKey(keySize: .bits2048).pkcs8PEMRepresentation,
      tokenURI: url.appending(path: "token"))
    self.state = state
  }

  /// What arrived, in order.
  var messages: [Message] { state.messages.withLock { $0 } }

  /// From now on the token is that of an app that was removed.
  func remove(_ token: String) {
    _ = state.gone.withLock { $0.insert(token) }
  }

  /// Runs a test beside it.
  static func run(_ test: @escaping @Sendable (Google) async throws -> Void) async throws {
    let state = State()
    let router = Router()
    router.post("/**") { request, _ in
      let body = try await request.body.collect(upTo: 1 << 20)
      if request.uri.path == "/token" {
        return json(.ok, ["access_token": "secret", "expires_in": 3600, "token_type": "Bearer"])
      }
      let message = try JSON.parse(body)["message"] ?? .null
      let token = message["token"]?.string ?? ""
      state.messages.withLock {
        $0.append(
          Message(
            token: token, data: message["data"] ?? .null, priority: message["android"]?["priority"]?.string))
      }
      guard !state.gone.withLock({ $0.contains(token) }) else {
        return json(
          .notFound,
          [
            "error": [
              "code": 404, "status": "NOT_FOUND", "message": "Requested entity was not found.",
              "details": [
                [
                  "@type": "type.googleapis.com/google.firebase.fcm.v1.FcmError", "errorCode": "UNREGISTERED",
                ]
              ],
            ]
          ])
      }
      return json(.ok, ["name": "projects/project/messages/1"])
    }
    try await listening(router) { port in
      try await test(Google(port: port, state: state))
    }
  }

  private static func json(_ status: HTTPResponse.Status, _ json: JSON) -> Response {
    Response(
      status: status, headers: [.contentType: "application/json"],
      body: ResponseBody(byteBuffer: ByteBuffer(bytes: json.bytes)))
  }
}
