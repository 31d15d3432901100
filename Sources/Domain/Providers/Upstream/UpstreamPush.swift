import Basics
package import Foundation
import HTTPClient
package import NIOCore
import NIOHPACK

/// Notifications for devices that are registered with the upstream bouncer (`upstream.url`), in the form of one call
/// there (`Documentation/Protocols/Zulip.md` 9.5).
package struct UpstreamPush: Sendable, Codable {
  /// The call that sends it. Only pushes with the same call may share one.
  package enum Call: Sendable, Codable, Hashable {
    /// `push/e2ee/notify`, for devices of one realm. `more` is a JSON object of members that are not known here; nil for none.
    case encrypted(realm: UUID, more: String? = nil)
    /// `push/notify`: one call for all legacy devices of a user. The id tells two calls apart.
    case legacy(UUID)
  }

  /// One device.
  package struct Item: Sendable, Codable {
    /// Row id of its registration.
    let registration: Int64
    /// The name of the device in the answer: its token id in base64, or a legacy token.
    let name: String
    let isAPNs: Bool
    /// Encrypted: the item as its chat server sent it, JSON. Legacy: the form of `push/register`, if the token may not
    /// be registered there yet; else nil.
    let body: ByteBuffer?
    /// Whether it is not known yet that the upstream bouncer has it.
    let isNew: Bool

    package init(registration: Int64, name: String, isAPNs: Bool, body: ByteBuffer?, isNew: Bool) {
      self.registration = registration
      self.name = name
      self.isAPNs = isAPNs
      self.body = body
      self.isNew = isNew
    }
  }

  let call: Call
  private(set) var items: [Item]
  /// A legacy notification: the JSON object of `push/notify` without its lists of tokens.
  let notification: ByteBuffer?

  package init(_ call: Call, _ items: [Item], notification: ByteBuffer? = nil) {
    self.call = call
    self.items = items
    self.notification = notification
  }

  /// The maximum number of items in a call. The answer may name all of them, and must stay short enough to be read whole.
  package static let maximumItems = 200

  /// Whether one call is made for all of its registrations together.
  var isShared: Bool { notification != nil }

  /// The id of such a call, which its entries in the outbox share.
  var callID: String? {
    if case .legacy(let id) = call { id.uuidString } else { nil }
  }

  /// Whether a success would show for the first time that the upstream bouncer has this registration.
  package func isNew(_ registration: Int64) -> Bool {
    items.contains { $0.registration == registration && $0.isNew }
  }

  /// Adds the items of another push to the same call.
  fileprivate mutating func merge(_ other: UpstreamPush) {
    guard !isShared else { return }
    items += other.items
  }

  /// The bytes of its items and its notification.
  var bytes: Int {
    var bytes = notification?.readableBytes ?? 0
    if case .encrypted(_, let more?) = call { bytes += more.utf8.count }
    return items.reduce(bytes) { $0 + ($1.body?.readableBytes ?? 0) }
  }

  /// The row ids of its registrations.
  fileprivate var registrations: [Int64] { items.map(\.registration) }

  /// The same for these registrations only; nil if none of them is left.
  fileprivate func only(_ these: Set<Int64>) -> UpstreamPush? {
    let left = items.filter { these.contains($0.registration) }
    return left.isEmpty ? nil : UpstreamPush(call, left, notification: notification)
  }

  /// The calls that register tokens which may not be registered there yet, by row id.
  var introductions: [(registration: Int64, call: UpstreamCall)] {
    guard isShared else { return [] }
    return items.compactMap { item in
      item.body.map { (item.registration, UpstreamCall("push/register", form: $0)) }
    }
  }

  /// The call that sends the notifications.
  var request: UpstreamCall {
    var body: [UInt8] = []
    switch call {
    case .encrypted(let realm, let more):
      body += #"{"realm_uuid":"\#(realm.hyphenated)","push_requests":["#.utf8
      for (index, item) in items.enumerated() {
        if index > 0 { body += ",".utf8 }
        if let item = item.body { body += item.readableBytesView }
      }
      body += "]".utf8
      // The other object without its first brace.
      if let more { body += ",\(more.dropFirst())".utf8 } else { body += "}".utf8 }
      return UpstreamCall("push/e2ee/notify", json: ByteBuffer(bytes: body))
    case .legacy:
      for (isAPNs, list) in [(true, #"{"apple_devices":["#), (false, #"],"android_devices":["#)] {
        body += list.utf8
        for (index, item) in items.filter({ $0.isAPNs == isAPNs }).enumerated() {
          if index > 0 { body += ",".utf8 }
          body.appendJSON(item.name)
        }
      }
      body += "],".utf8
      // The rest of the object, without its brace.
      if let rest = notification { body += rest.readableBytesView.dropFirst() }
      return UpstreamCall("push/notify", json: ByteBuffer(bytes: body))
    }
  }
}

extension UpstreamPush: ProviderMessage {
  var push: Push { .upstream(self) }
  var isRecognizedAgain: Bool { false }
  var collapseID: String? { callID }
  var payloadBytes: Int { bytes }
  var tokenHash: Int? { nil }
  var unservedRoute: Route { Route(provider: .upstream, credential: "", target: "") }
  var fits: Bool { true }

  func expiration(from start: Date) -> Date? { nil }

  func name(of registration: Int64) -> Push.DeviceName? {
    items.first { $0.registration == registration }.map { isShared ? .token($0.name) : .tokenID($0.name) }
  }

  /// Its sender makes its calls by itself.
  func request(
    from sender: Sender, target: String, _ authorization: String
  ) throws(Sender.Unsendable) -> ProviderRequest {
    throw .init(outcome: .rejected(.unknown))
  }
}

/// A call to the upstream bouncer.
package struct UpstreamCall: Sendable {
  /// Below `/api/v1/remotes/`.
  let endpoint: String
  let contentType: String?
  let body: ByteBuffer

  /// A call with parameters, in the form of `application/x-www-form-urlencoded`.
  package init(_ endpoint: String, form: ByteBuffer) {
    self.endpoint = endpoint
    body = form
    contentType = "application/x-www-form-urlencoded"
  }

  package init(_ endpoint: String, json: ByteBuffer) {
    self.endpoint = endpoint
    body = json
    contentType = "application/json"
  }

  /// A call with GET.
  package init(get endpoint: String) {
    self.endpoint = endpoint
    body = ByteBuffer()
    contentType = nil
  }
}

/// The upstream bouncer's answer to a call.
package struct UpstreamAnswer: Sendable {
  package let status: Int
  /// Why it is not the answer of a working bouncer; nil if it is.
  package let failure: Reason?
  /// The seconds of the header `Retry-After`, at most an hour; nil without it.
  package let retryAfter: Int?
  /// At most 32 KiB.
  package let body: ByteBuffer
}

extension ProviderRequest {
  static func upstream(_ call: UpstreamCall, to origin: Origin, _ authorization: String) -> ProviderRequest {
    var headers: HPACKHeaders = [
      ":method": call.contentType == nil ? "GET" : "POST", ":scheme": origin.scheme,
      // A path in the address is left out, as stock servers do.
      ":authority": origin.authority, ":path": "/api/v1/remotes/\(call.endpoint)",
      "user-agent": "push-bouncer",
    ]
    // Never kept in a table of headers, since servers share the connections.
    headers.add(name: "authorization", value: authorization, indexing: .neverIndexed)
    if let type = call.contentType { headers.add(name: "content-type", value: type) }
    return ProviderRequest(headers: headers, body: call.body)
  }
}

/// Pushes that share a request, as those to the upstream bouncer do. With these members callers need not know the
/// provider.
extension Push {
  /// Equal for pushes of one owner that may share a request; nil for a push that needs a request of its own.
  package var requestKey: RequestKey? {
    guard case .upstream(let push) = self else { return nil }
    return RequestKey(call: push.call)
  }

  package struct RequestKey: Sendable, Hashable {
    fileprivate let call: UpstreamPush.Call
  }

  /// The maximum number of pushes in one request.
  package static let maximumPerRequest = UpstreamPush.maximumItems

  /// This push and another one with the same ``requestKey``.
  package func merged(with other: Push) -> Push {
    guard case .upstream(var push) = self, case .upstream(let other) = other else { return self }
    push.merge(other)
    return .upstream(push)
  }

  /// The outcome for each of these registrations (row ids), in their order, of a request that was sent for all of them; nil if
  /// this one is for all.
  package func outcomes(_ outcome: Outcome, of registrations: @autoclosure () -> [Int64]) -> [Outcome]? {
    guard case .upstream(let push) = self, case .passedOn(let receipt) = outcome else { return nil }
    let outcomes = receipt.outcomes(of: push)
    return registrations().map { outcomes[$0] ?? outcome }
  }

  /// The row ids of all registrations that it is for, if it is one push for several; nil for any other push.
  package var recipients: [Int64]? {
    guard case .upstream(let push) = self, push.isShared else { return nil }
    return push.registrations
  }

  /// The same push for those of its ``recipients`` that are among these; nil if none is.
  package func only(_ recipients: Set<Int64>) -> Push? {
    guard case .upstream(let push) = self else { return self }
    return push.only(recipients).map(Push.upstream)
  }
}

extension Route.Provider {
  /// The provider of registrations that live elsewhere.
  package static let elsewhere = Route.Provider.upstream
}
