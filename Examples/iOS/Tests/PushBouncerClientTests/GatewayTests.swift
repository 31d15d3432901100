import Foundation
import Testing

@testable import PushBouncerClient

/// A gateway that gives prepared answers, and knows what it was asked.
private actor PlayedGateway {
  private(set) var calls: [GatewayCall] = []
  private var answers: [GatewayAnswer]

  init(_ answers: [(status: Int, body: String)]) {
    self.answers = answers.map { GatewayAnswer(status: $0.status, headers: [], body: Data($0.body.utf8)) }
  }

  init(_ answers: [GatewayAnswer]) { self.answers = answers }

  func answer(_ call: GatewayCall) throws -> GatewayAnswer {
    calls.append(call)
    return answers.isEmpty ? GatewayAnswer(status: 500, headers: [], body: Data()) : answers.removeFirst()
  }

  nonisolated var gateway: Gateway {
    Gateway("https://push.example.org/") { try await self.answer($0) }
  }

  /// The calls' methods and paths.
  var paths: [String] {
    calls.map { "\($0.method) \($0.url.dropFirst("https://push.example.org/webpush/v1/".count))" }
  }
}

private let made = #"{"id":"subs","endpoint":"https://push.example.org/e","secret":"s3cret"}"#
private let named = #"{"id":"subs","endpoint":"https://push.example.org/e"}"#
private let known = Subscription(id: "subs", endpoint: "https://push.example.org/e", secret: "s3cret")
private let phone = Registration.fcm(token: "token")

@Suite("An app at the gateway")
struct GatewayTests {
  @Test func `subscribes once, and renews from then on`() async throws {
    let played = PlayedGateway([(201, made), (200, named)])
    let first = try await played.gateway.enrol(
      nil, as: .apns(token: "ab", appID: "org.example.chat"), sender: "key")
    #expect(first == known)
    #expect(try await played.gateway.enrol(first, as: phone, sender: nil) == known)
    #expect(await played.paths == ["POST subscriptions", "PUT subscriptions/subs"])
    let calls = await played.calls
    #expect(calls[0].headers == ["Content-Type": "application/json"])
    #expect(
      try JSONDecoder().decode([String: String].self, from: calls[0].body ?? Data()) == [
        "token_kind": "apns", "token": "ab", "ios_app_id": "org.example.chat",
        "application_server_key": "key",
      ])
    #expect(calls[1].headers["Authorization"] == "Bearer s3cret")
    // The sender's key is named also if there is none.
    #expect(
      try JSONDecoder().decode([String: String?].self, from: calls[1].body ?? Data()) == [
        "token_kind": "fcm", "token": "token", "application_server_key": nil,
      ])
  }

  @Test func `subscribes anew where the gateway does not know its secret, and only there`() async throws {
    let played = PlayedGateway([(401, #"{"code":"unauthorized","message":"No."}"#), (201, made)])
    #expect(try await played.gateway.enrol(known, as: phone, sender: nil) == known)
    for status in [400, 403, 429, 500, 503] {
      let played = PlayedGateway([(status, #"{"code":"x","message":"No."}"#)])
      await #expect(throws: PushError.refused(status: status, message: "No.")) {
        try await played.gateway.enrol(known, as: phone, sender: nil)
      }
      #expect(await played.paths == ["PUT subscriptions/subs"])
    }
  }

  @Test(arguments: [
    "", "{}", "[]", #"{"id":7,"endpoint":"x","secret":"y"}"#, #"{"id":"two","endpoint":"x"}"#,
  ])
  func `believes no answer that makes no sense`(body: String) async {
    let played = PlayedGateway([(201, body), (200, body)])
    await #expect(throws: PushError.self) { try await played.gateway.enrol(nil, as: phone, sender: nil) }
    await #expect(throws: PushError.self) { try await played.gateway.enrol(known, as: phone, sender: nil) }
  }

  @Test func `fetches what waits one by one, and shows each before it fetches the next`() async throws {
    // RFC 8291 section 5, and another's message.
    let keys = WebPushKeys(
      privateKey: try #require(Base64URL.decode("q1dXpw3UpT5VOmu_cf_v6ih07Aems3njxI-JWgLcM94")),
      authentication: try #require(Base64URL.decode("BTBZMqHH6r4Tts7J_aSIgg")))
    let body = try #require(
      Base64URL.decode(
        """
        DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBr\
        u3jl7A_yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN
        """))
    let list = """
      {"messages":[{"id":"gone","encoding":"aes128gcm","expires_at":1},{"id":"msgA","encoding":"aes128gcm","expires_at":1},
      {"id":"../../elsewhere","encoding":"aes128gcm","expires_at":1},{"id":"msgB","encoding":"aesgcm","expires_at":1},
      {"id":"msgC","encoding":"aes128gcm","expires_at":1},{"id":"msgD","encoding":"aes128gcm","expires_at":1}]}
      """
    let played = PlayedGateway([
      GatewayAnswer(status: 200, headers: [], body: Data(list.utf8)),
      GatewayAnswer(status: 404, headers: [], body: Data()),
      GatewayAnswer(status: 200, headers: [("Content-Encoding", "aes128gcm")], body: body),
      GatewayAnswer(
        status: 200,
        headers: [
          ("content-encoding", "aesgcm"), ("Crypto-Key", "dh=BNoR;p256ecdsa=AAAA"),
          ("Encryption", "keyid=a; salt=\"lnga==\""),
        ], body: body),
      GatewayAnswer(status: 200, headers: [("content-encoding", "aes128gcm")], body: body.dropLast()),
    ])
    var shown: [(String?, asked: Int)] = []
    await #expect(throws: PushError.refused(status: 500, message: "")) {
      try await played.gateway.collect(for: known, with: keys) { text in
        shown.append((text.map { String(decoding: $0, as: UTF8.self) }, await played.calls.count))
      }
    }
    #expect(shown.map(\.0) == ["When I grow up, I want to be a watermelon", nil, nil])
    #expect(shown.map(\.asked) == [3, 4, 5])
    #expect(
      await played.paths == [
        "GET subscriptions/subs/messages", "GET messages/gone", "GET messages/msgA", "GET messages/msgB",
        "GET messages/msgC", "GET messages/msgD",
      ])
  }

  @Test func `shows nothing that is for another subscription`() async throws {
    let played = PlayedGateway([(200, "x")])
    for push in [
      ["subscription": "else"], ["subscription": "else", "encoding": "aes128gcm", "message": "mess"],
    ] {
      await #expect(throws: PushError.notSubscribed) {
        try await played.gateway.open(ReceivedPush(push), of: known, with: WebPushKeys())
      }
    }
    #expect(await played.paths == [])
    #expect(
      try await played.gateway.open(ReceivedPush(["subscription": "subs"]), of: known, with: WebPushKeys())
        == nil)
    #expect("\(known)" == "Subscription(subs)")
  }

  @Test func `finds the draft's key and salt in the headers`() throws {
    let answer = GatewayAnswer(
      status: 200,
      headers: [
        ("Crypto-Key", "p256ecdsa=AAAA, keyid=\"a\" ; DH=\"AQID=\""), ("ENCRYPTION", "salt=BAUG;rs=4096"),
      ],
      body: Data())
    #expect(answer.bytes("dh", in: "crypto-key") == Data([1, 2, 3]))
    #expect(answer.bytes("salt", in: "encryption") == Data([4, 5, 6]))
    #expect(answer.bytes("salt", in: "crypto-key") == nil)
  }
}

@Suite("A push")
struct ReceivedPushTests {
  @Test func `has a message, or says where one waits, or has none`() throws {
    let push = try ReceivedPush([
      "subscription": "subs", "encoding": "aes128gcm", "body": "AAEC", "topic": "t", "aps": ["alert": "x"],
    ])
    #expect(push.subscription == "subs")
    #expect(push.message == (try EncryptedMessage(Data([0, 1, 2]), encoding: "aes128gcm")))
    let none = try ReceivedPush(["subscription": "subs"])
    #expect(none.message == nil && none.waiting == nil)
    let long = try ReceivedPush(["subscription": "subs", "encoding": "aesgcm", "message": "mess"])
    #expect(long.message == nil && long.waiting == "mess")
  }

  @Test(arguments: [
    ["encoding": "aes128gcm", "body": "AAEC"], ["subscription": ""], ["subscription": "a/b"],
    ["subscription": "subs", "encoding": "aes128gcm"],
    ["subscription": "subs", "encoding": "aes128gcm", "body": "A"],
    ["subscription": "subs", "encoding": "aes128gcm", "body": "AA+/"],
    ["subscription": "subs", "encoding": "gzip", "body": "AAEC"],
    ["subscription": "subs", "encoding": "aesgcm", "body": "AAEC", "crypto_key": "AAEC"],
    [
      "subscription": "subs", "encoding": "aesgcm", "body": "AAEC", "crypto_key": "AAEC",
      "encryption": "AAEC",
    ],
    ["subscription": "of-more-than-64-characters-which-no-id-of-the-gateway-has--------------"],
    ["subscription": "subs", "encoding": "aes128gcm", "message": "../x"],
  ])
  func `is refused if it makes no sense`(members: [String: String]) {
    #expect(throws: PushError.self) { try ReceivedPush(members) }
  }

  @Test func `may have members of any kind`() {
    #expect(throws: PushError.self) { try ReceivedPush(["subscription": 7]) }
    #expect(throws: PushError.self) {
      try ReceivedPush(["subscription": "subs", "encoding": 7, "body": "AAEC"])
    }
    #expect(throws: PushError.self) { try ReceivedPush([1: "subs"]) }
    #expect(throws: PushError.malformed("a message of 4098 bytes")) {
      try ReceivedPush([
        "subscription": "subs", "encoding": "aes128gcm", "body": String(repeating: "A", count: 5464),
      ])
    }
  }
}
