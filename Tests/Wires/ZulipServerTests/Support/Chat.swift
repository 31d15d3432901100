import Foundation
import HTTP
import HTTPTypes
import NIOCore
import SQL
import Sealing
import Synchronization
import TestService
import TestSupport
import Testing

@testable import Registrations
@testable import Server
@testable import ZulipServer

/// The service, called as the chat-server side's clients call it. The test plays its bouncer.
final class Chat: Sendable {
  /// The bouncer that the test plays: its answers, and the calls that it received.
  final class Wire: Sendable {
    typealias Answering = @Sendable (BouncerClient.Call) async throws -> (Int, String)

    private let answering = Mutex<Answering>({ _ in (200, #"{"result":"success","msg":""}"#) })
    private let retryAfter = Mutex<String?>(nil)
    private let asked = Mutex<[BouncerClient.Call]>([])

    func answer(_ answering: @escaping Answering) { self.answering.withLock { $0 = answering } }
    func answer(_ status: Int, _ body: String, retryAfter: String? = nil) {
      self.retryAfter.withLock { $0 = retryAfter }
      answer { _ in (status, body) }
    }

    /// Each call to an endpoint so far.
    func calls(_ endpoint: String) -> [BouncerClient.Call] {
      asked.withLock { $0.filter { $0.endpoint == endpoint } }
    }

    fileprivate func call(_ call: BouncerClient.Call) async throws -> BouncerClient.Response {
      asked.withLock { $0.append(call) }
      let (status, body) = try await answering.withLock { $0 }(call)
      return .init(
        status: status, retryAfter: retryAfter.withLock { $0 }, body: ByteBuffer(string: body))
    }
  }

  struct Answer: Sendable {
    let status: Int
    let headers: HTTPFields
    let json: JSON
    var message: String? { json["msg"]?.string }
    var code: String? { json["code"]?.string }
  }

  let test: TestService
  let wire: Wire
  let realm: ChatRealm
  /// Devices on another node with the same database. This node gets no local events of their changes.
  let elsewhere: Devices

  var clock: TestClock { test.clock }
  var accounts: AccountStore { test.service.builtIn.accounts }
  var devices: Devices { test.service.builtIn.devices }
  var eventNotifier: EventNotifier { test.service.builtIn.eventNotifier }
  var notifier: Notifier { test.service.builtIn.notifier }

  private init(_ test: TestService, wire: Wire) async throws {
    self.test = test
    self.wire = wire
    let store = test.service.store
    elsewhere = try await store.devices()
    realm = try await store.accounts.put(
      realm: UUID(), name: "Zulip Dev", url: "https://chat.example.org", requiresE2EE: nil
    ).realm
  }

  /// Runs a test.
  static func test(
    _ settings: [String: String] = [:], _ test: @escaping @Sendable (Chat) async throws -> Void
  ) async throws {
    let defaults = [
      "server.bouncer": "https://push.example.org", "server.org_id": UUID().uuidString.lowercased(),
      "server.org_key": String(repeating: "k", count: 64), "server.rate_limit.per_user": "0",
    ]
    let wire = Wire()
    try await TestService.run(
      defaults.merging(settings) { $1 }, isWorking: true,
      remoteBouncer: BouncerClient(transport: wire.call)
    ) { service in
      try await test(Chat(service, wire: wire))
    }
  }

  /// In how many seconds the only row of a queue is due.
  func pause(in queue: String) async throws -> TimeInterval? {
    let row = try await test.service.store.database.query(Statement("SELECT due_at FROM \(queue)")).first
    return try row?.date("due_at").timeIntervalSince(clock.now)
  }

  /// A user with a key of its own.
  func user(_ name: String = "iago", id: Int64 = 10) async throws -> Client {
    let (user, key, _) = try await accounts.put(
      .init(email: "\(name)@example.org"), userID: id, realm: realm.uuid)
    return Client(chat: self, user: user, key: try #require(key))
  }

  /// A call with any headers.
  func call(
    _ method: HTTPRequest.Method, _ path: String, form: [(String, String)] = [],
    authorization: String? = nil
  ) async throws -> Answer {
    var headers: HTTPFields = [:]
    headers[.authorization] = authorization
    var uri = path
    var body: [UInt8] = []
    let encoded = Form.encode(form.map { ($0, $1) })
    if method == .get {
      if !encoded.isEmpty { uri += "?" + String(decoding: encoded, as: UTF8.self) }
    } else {
      headers[.contentType] = "application/x-www-form-urlencoded"
      body = encoded
    }
    let answer = try await test.call(method, uri, headers: headers, body: body)
    return Answer(
      status: answer.status, headers: answer.headers,
      json: (try? JSON.parse(answer.text)) ?? .string(answer.text))
  }
}

/// A client of a user, as an app is one.
struct Client: Sendable {
  let chat: Chat
  let user: User
  let key: String

  @discardableResult
  func call(_ method: HTTPRequest.Method, _ endpoint: String, _ form: (String, String)...) async throws
    -> Chat.Answer
  {
    try await call(method, endpoint, form)
  }

  func call(_ method: HTTPRequest.Method, _ endpoint: String, _ form: [(String, String)]) async throws
    -> Chat.Answer
  {
    let credentials = Base64.encode(Array("\(user.email):\(key)".utf8))
    return try await chat.call(
      method, "/api/v1/\(endpoint)", form: form, authorization: "Basic \(credentials)")
  }

  func addDevice() async throws -> String {
    "\(try #require(try await call(.post, "register_client_device").json["device_id"]?.integer))"
  }

  /// Registers key and token, as on the first start.
  @discardableResult
  func register(
    _ device: String, key: PushKey = .generate(), keyID: UInt32 = 10, token: String = "token",
    kind: String = "fcm"
  ) async throws -> Chat.Answer {
    try await call(
      .post, "mobile_push/register",
      [
        ("device_id", device), ("push_key", key.base64), ("push_key_id", "\(keyID)"), ("token_kind", kind),
        ("token_id", TokenID(token: token).base64), ("bouncer_public_key", "public"),
        ("encrypted_push_registration", "sealed"),
      ])
  }

  /// Waits until the device has this state.
  func waitUntil(
    _ device: String, _ what: String, sourceLocation: SourceLocation = #_sourceLocation,
    _ condition: (Device.State) async throws -> Bool
  ) async throws {
    try await eventually(what, sourceLocation: sourceLocation) {
      let devices = try await chat.devices.snapshot(user: user.id).devices
      guard let found = devices.first(where: { "\($0.id)" == device }) else { return false }
      return try await condition(found.state)
    }
  }
}

extension Trait where Self == Fixture<Chat> {
  /// A chat server of the test's own.
  static var chat: Self { Fixture { try await Chat.test([:], $0) } }
}
