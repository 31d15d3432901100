import Foundation
import HTTP
import Hummingbird
import Logging
import Registrations
import Sealing
import Server
import Synchronization
import TestService
import TestSupport
import Testing

@testable import ZulipBouncer

/// A bouncer that behaves as Zulip's own where that differs from this program (`Documentation/Protocols/Zulip.md`
/// 13): an item that it does not understand has the whole request refused, what has ended stays so, and unregistering
/// what is not there is an error. It opens no registration and takes any.
final class LikeZulips: Sendable {
  fileprivate struct State {
    var encrypted: Set<String> = []
    var ended: Set<String> = []
    /// Tokens by user, as the call names the user.
    var legacy: [String: [(token: String, kind: Int)]] = [:]
    var rings: [String: [String]] = [:]
    var key: String
    var realms: Set<String> = []
    var reported: [JSON] = []
    var counts: [Int64] = []
    var repetitions = 0
    /// What is answered in place of the truth, by endpoint.
    var faults: [String: OthersHost.Reply] = [:]
    var calls: [String] = []
    /// The bodies of the calls, in the same order.
    var bodies: [String] = []
  }

  private let state: Mutex<State>

  init(key: String, realms: Set<String>) { state = Mutex(State(key: key, realms: realms)) }

  /// What has rung a phone: by its token id, or an old app's token.
  var rings: [String: [String]] { state.withLock(\.rings) }
  /// The endpoints that were called.
  var calls: [String] { state.withLock(\.calls) }
  /// The bodies of an endpoint's calls.
  func bodies(_ endpoint: String) -> [String] {
    state.withLock { state in zip(state.calls, state.bodies).filter { $0.0 == endpoint }.map(\.1) }
  }

  /// The parameters of an endpoint's calls.
  func forms(_ endpoint: String) -> [[String: String]] {
    bodies(endpoint).map { body in
      Dictionary((Form.parse(Array(body.utf8)) ?? []).map { ($0.name.text, $0.value) }) { $1 }
    }
  }

  var encrypted: Set<String> { state.withLock(\.encrypted) }
  var legacyTokens: Set<String> { state.withLock { Set($0.legacy.values.joined().map(\.token)) } }
  var realms: Set<String> { state.withLock(\.realms) }
  /// The realms of the last report, as they came.
  var reported: [JSON] { state.withLock(\.reported) }
  var counts: [Int64] { state.withLock(\.counts) }
  /// Reports with figures that it had already.
  var repetitions: Int { state.withLock(\.repetitions) }
  var key: String {
    get { state.withLock(\.key) }
    set { state.withLock { $0.key = newValue } }
  }

  /// Has an endpoint answer this; nil: the truth again.
  func fault(_ endpoint: String, _ reply: OthersHost.Reply?) {
    state.withLock { $0.faults[endpoint] = reply }
  }

  func fault(_ endpoint: String, _ status: Int, _ body: String) {
    fault(endpoint) { _ in OthersHost.response(status, body) }
  }

  /// A provider has called a token dead.
  func end(_ name: String) { state.withLock { _ = $0.ended.insert(name) } }

  /// Knows devices from before the chat server came to the upstream bouncer.
  func know(encrypted tokens: [String], legacy: [(token: String, kind: Int)] = [], of user: OldUser) {
    state.withLock { state in
      state.encrypted.formUnion(tokens.map { TokenID(token: $0).base64 })
      state.legacy[user.uuid, default: []] += legacy
    }
  }

  func answer(_ call: OthersHost.Call) async throws -> Response {
    let endpoint = String(call.path.dropFirst("/api/v1/remotes/".count))
    if let fault = state.withLock({ state in
      state.calls.append(endpoint)
      state.bodies.append(call.body)
      return state.faults[endpoint]
    }) {
      return try await fault(call)
    }
    return truth(call)
  }

  func truth(_ call: OthersHost.Call) -> Response {
    let endpoint = String(call.path.dropFirst("/api/v1/remotes/".count))
    return state.withLock { state in
      guard
        endpoint == "server/register" || call.headers[.authorization]?.hasSuffix(state.signIn(call)) == true
      else {
        return Self.error(401, "UNAUTHORIZED", "Zulip server auth failure: key does not match role")
      }
      let form = Form.parse(Array(call.body.utf8)) ?? []
      let fields = Dictionary(form.map { ($0.name.text, $0.value) }) { $1 }
      return state.answer(endpoint, fields, (try? JSON.parse(call.body)) ?? .null)
    }
  }

  static func error(_ status: Int, _ code: String, _ message: String) -> Response {
    OthersHost.response(status, #"{"result":"error","msg":"\#(message)","code":"\#(code)"}"#)
  }
}

extension LikeZulips.State {
  fileprivate func signIn(_ call: OthersHost.Call) -> String {
    // Whatever id: tests have one server.
    guard let shown = call.headers[.authorization]?.split(separator: " ").last,
      let bytes = Base64.decodeStrictly(String(shown)),
      String(decoding: bytes, as: UTF8.self).hasSuffix(":\(key)")
    else { return "no" }
    return String(shown)
  }

  fileprivate mutating func answer(_ endpoint: String, _ form: [String: String], _ json: JSON) -> Response {
    func success(_ members: JSON.Object = [:]) -> Response {
      var body: JSON.Object = ["result": "success", "msg": ""]
      for member in members.members { body[member.name.text] = member.value }
      return OthersHost.response(200, JSON.object(body).text)
    }
    let user = form["user_uuid"] ?? json["user_uuid"]?.string ?? form["user_id"] ?? ""
    switch endpoint {
    case "server/register":
      guard form["zulip_org_key"] == key else {
        return LikeZulips.error(400, "INVALID_ZULIP_SERVER", "Zulip server auth failure")
      }
      key = form["new_org_key"] ?? key
      return success(["created": false])
    case "server/analytics/status":
      return success([
        "last_realm_count_id": .integer(counts.last ?? 0), "last_installation_count_id": 0,
        "last_realmauditlog_id": 0,
      ])
    case "server/analytics":
      let rows = (try? JSON.parse(form["realm_counts"] ?? ""))?.elements ?? []
      for row in rows {
        guard let id = row["id"]?.integer, id > counts.last ?? 0 else {
          repetitions += 1
          return LikeZulips.error(400, "BAD_REQUEST", "Data is out of order.")
        }
        counts.append(id)
      }
      // A report without realms says nothing of them.
      if let form = form["realms"] {
        reported = (try? JSON.parse(form))?.elements ?? []
        for realm in reported { realms.insert(realm["uuid"]?.string ?? "") }
      }
      return success(["realms": [:]])
    case "push/e2ee/register":
      guard realms.contains(form["realm_uuid"] ?? "") else {
        return LikeZulips.error(403, "MISSING_REMOTE_REALM", "Organization not registered")
      }
      encrypted.insert(form["token_id"] ?? "")
      return success()
    case "push/e2ee/notify":
      var (gone, apple, android): ([JSON], Int64, Int64) = ([], 0, 0)
      for item in json["push_requests"]?.elements ?? [] {
        guard let id = item["token_id"]?.string, let data = item["payload"]?["encrypted_data"]?.string else {
          return LikeZulips.error(400, "BAD_REQUEST", "push_requests is malformed")
        }
        guard encrypted.contains(id), !ended.contains(id) else {
          gone.append(.string(id))
          continue
        }
        rings[id, default: []].append(data)
        if item["http_headers"] == nil { android += 1 } else { apple += 1 }
      }
      return success([
        "apple_successfully_sent_count": .integer(apple),
        "android_successfully_sent_count": .integer(android),
        "delete_token_ids": .array(gone),
        "realm_push_status": ["can_push": true, "expected_end_timestamp": nil],
      ])
    case "push/register":
      let (token, kind) = (form["token"] ?? "", Int(form["token_kind"] ?? "") ?? 0)
      if legacy[user]?.contains(where: { $0.token == token }) != true {
        legacy[user, default: []].append((token, kind))
      }
      return success()
    case "push/unregister":
      let count = legacy[user]?.count ?? 0
      legacy[user]?.removeAll { $0.token == form["token"] }
      return count == legacy[user]?.count ?? 0
        ? LikeZulips.error(400, "BAD_REQUEST", "Token does not exist") : success()
    case "push/unregister/all":
      legacy[user] = nil
      return success()
    case "push/notify":
      legacy[user]?.removeAll { ended.contains($0.token) }
      let rows = legacy[user] ?? []
      for row in rows { rings[row.token, default: []].append(json["gcm_payload"]?["content"]?.string ?? "") }
      // One that is listed again counts as missing.
      func missing(_ name: String) -> JSON {
        var left = Set(rows.map(\.token))
        return .array((json[name]?.elements ?? []).filter { left.remove($0.string ?? "") == nil })
      }
      return success([
        "total_android_devices": .integer(Int64(rows.count { $0.kind == 2 })),
        "total_apple_devices": .integer(Int64(rows.count { $0.kind == 1 })),
        "deleted_devices": [
          "android_devices": missing("android_devices"), "apple_devices": missing("apple_devices"),
        ],
        "realm": nil,
      ])
    case "push/test_notification":
      guard let token = json["token"]?.string, legacy[user]?.contains(where: { $0.token == token }) == true
      else {
        return LikeZulips.error(
          400, "INVALID_REMOTE_PUSH_DEVICE_TOKEN", "Device not recognized by the push bouncer")
      }
      rings[token, default: []].append("test")
      return success()
    default: return OthersHost.response(404, "<h1>Not Found</h1>")
    }
  }
}

/// A company's bouncer before one like Zulip's.
struct BeforeZulips: Sendable {
  let ours: Simulated
  let upstream: LikeZulips
  let host: OthersHost?
  let server: Credentials
  let realm: String

  var bouncer: Bouncer { ours.bouncer }
  var links: UpstreamLinks { bouncer.test.service.store.upstreamLinks }

  static func test(
    _ settings: [String: String] = [:], isEnabled: Bool = true, knowsRealm: Bool = true,
    clock: TestClock = TestClock(nil), isWorking: Bool = true, logger: Logger = .quiet,
    _ body: @escaping @Sendable (BeforeZulips) async throws -> Void
  ) async throws {
    try await OthersHost.runInClear { host in
      let upstream = ["upstream.url": host.url]
      try await Simulated.test(
        upstream.merging(settings) { $1 }, clock: clock, isWorking: isWorking, logger: logger
      ) { ours in
        let server = try await ours.bouncer.server()
        let realm = UUID().uuidString.lowercased()
        let zulips = LikeZulips(key: server.key, realms: knowsRealm ? [realm] : [])
        host.reply(zulips.answer)
        if isEnabled { try await ours.bouncer.enableUpstream() }
        _ = try await ours.bouncer.realm(of: server, uuid: realm)
        try await body(BeforeZulips(ours: ours, upstream: zulips, host: host, server: server, realm: realm))
      }
    }
  }

  /// The key that the store's app is built with.
  static let storeKey = "mm4F/3WLqECY637NulC5j/ZeHkmpwmtlfIxwt8MfREM="

  /// Registers a phone with the store's app, whose key nobody here has.
  func registerStore(_ token: String) async throws -> Answer {
    try await bouncer.post(
      "push/e2ee/register",
      [
        ("realm_uuid", realm), ("token_id", TokenID(token: token).base64),
        ("encrypted_push_registration", "sealed+to/others="),
        ("bouncer_public_key", Self.storeKey),
      ], as: server)
  }

  func registerOwn(_ registration: JSON) async throws {
    let form = try bouncer.registerForm(realm: realm, registration)
    let answer = try await bouncer.post("push/e2ee/register", form, as: server)
    try #require(answer.isSuccess, "\(answer.text)")
  }

  func notify(_ items: [JSON]) async throws -> Answer {
    try await bouncer.post("push/e2ee/notify", json: PushItem.body(realm, items), as: server)
  }

  /// What a phone with the store's app has heard.
  func heard(_ token: String) -> Int { upstream.rings[TokenID(token: token).base64]?.count ?? 0 }
}
