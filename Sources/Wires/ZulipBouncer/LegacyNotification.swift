import Basics
import Delivery
import Foundation
package import HTTP
import HTTPClient
import Logging
import NIOCore
import Providers
import Registrations
import Sealing

/// An unencrypted notification from a chat server (`Documentation/Protocols/Zulip.md` 7.5 and 7.7).
package struct LegacyNotification: Sendable {
  /// Seconds for which a provider keeps it for a phone that is off.
  private static let lifetime: TimeInterval = 86_400

  /// `aps` and, in `custom`, the members beside it.
  package var apns: JSON.Object
  /// `data`, before its values are converted to text.
  package var fcm: JSON.Object
  /// `gcm_options`
  package let options: JSON.Object
  /// Members of the call that are not known here, for the upstream bouncer.
  var more: JSON.Object = [:]
}

extension LegacyNotification {
  /// Reads it from the body of `push/notify`, or from an object with the same members.
  ///
  /// - Parameter object: reads one of the members.
  package init(
    _ body: Field, _ object: (Field) throws(APIError) -> JSON.Object = { try $0.ifSent?.members() ?? [:] }
  ) throws(APIError) {
    fcm = try object(body["gcm_payload"])
    try Self.truncate(&fcm, body["gcm_payload"])
    apns = try object(body["apns_payload"])
    if case .object(var custom)? = apns["custom"], case .object(var zulip)? = custom["zulip"] {
      try Self.truncate(&zulip, body["apns_payload"]["custom"]["zulip"])
      custom["zulip"] = .object(zulip)
      apns["custom"] = .object(custom)
    }
    options = try object(body["gcm_options"])
  }

  /// What is for the devices of a kind.
  func members(for kind: PushToken.Kind) -> [JSON.Object.Member] {
    switch kind {
    case .apns: apns.members
    case .fcm: fcm.members
    }
  }

  /// Bytes of memory that it takes, about.
  var memory: Int { [apns, fcm, options, more].reduce(0) { $0 + JSON.object($1).memory } }

  /// A test notification (`Documentation/Protocols/Zulip.md` 7.6).
  ///
  /// - Parameter base: the server's description of its realm.
  static func test(_ base: JSON.Object, now: Date) -> LegacyNotification {
    var payload = base
    payload["event"] = "test"
    var data = payload
    data["time"] = .integer(Int64(now.timeIntervalSince1970))
    let url = base["realm_url"] ?? base["realm_uri"] ?? ""
    let body =
      "This is a test notification from \((base["realm_name"] ?? "").pythonText) (\(url.pythonText))."
    return LegacyNotification(
      apns: [
        "alert": ["title": "Test notification", "body": .string(body)], "sound": "default",
        "custom": ["zulip": .object(payload)],
      ], fcm: data, options: ["priority": "high"])
  }

  /// Keeps only the newest ids of a removal.
  private static func truncate(_ data: inout JSON.Object, _ field: Field) throws(APIError) {
    guard data["event"]?.string == "remove", let text = data["zulip_message_ids"]?.string, !text.isEmpty
    else { return }
    var ids: [Int64] = []
    for word in text.utf8.split(separator: UInt8(ascii: ","), omittingEmptySubsequences: false) {
      guard let id = Int64(String(Substring(word)).strippingWhitespace()) else {
        throw field["zulip_message_ids"].error("has invalid format")
      }
      ids.append(id)
    }
    data["zulip_message_ids"] = .string(
      ids.sorted().suffix(Zulip.maximumRemovals).map(String.init).joined(separator: ","))
  }

  /// The pushes for these registrations. A server that knows no device of a kind sends nothing for that kind.
  ///
  /// - Parameter owner: the chat server.
  /// - Throws: the 400 for invalid FCM data, if it applies to a device and no other device can be sent to.
  func pushes(
    to registrations: [Registration], of owner: Owner, now: Date, logger: Logger
  ) throws(APIError) -> [RegisteredPush] {
    var pushes: [RegisteredPush] = []
    // The payload is encoded once for all devices.
    let apple = registrations.filter { $0.token.kind == .apns }
    if !apns.members.isEmpty, !apple.isEmpty {
      let payload = apnsPayload
      for registration in apple {
        guard let push = apnsPush(for: registration, payload: payload, now: now) else {
          logger.error(
            "registration without app id", metadata: ["token": "\(registration.token.fingerprint)"])
          continue
        }
        pushes.append(
          RegisteredPush(
            push: push, registration: registration.reference, owner: owner, isBackground: isSilentRemoval))
      }
    }
    let android = registrations.filter { $0.token.kind == .fcm }
    guard !fcm.members.isEmpty, !android.isEmpty else { return pushes }
    // If others can be sent to, the result of each such device says so instead.
    if pushes.isEmpty, android.allSatisfy({ $0.token.provider == .fcm }) {
      try forbidReservedNames(at: Field(.object(fcm), path: "gcm_payload"))
    }
    var faults = ItemFaults()
    defer { faults.report(to: logger) }
    let data = fcmData
    let priority = fcmPriority
    lazy var body = ByteBuffer(
      bytes: JSON.object(
        JSON.Object(data.sorted { $0.key < $1.key }.map { .init(Name($0.key), .string($0.value)) })
      ).bytes)
    for registration in android {
      do throws(ItemFault) {
        let push = try Push(toAndroid: registration.token, data: data, body: body, priority: priority)
        pushes.append(
          RegisteredPush(
            push: push, registration: registration.reference, owner: owner,
            isBackground: fcm["event"] == "remove"))
      } catch {
        faults.add(error)
      }
    }
    return pushes
  }

  /// Throws the 400 for a member of `data` that Google refuses.
  private func forbidReservedNames(at field: Field) throws(APIError) {
    guard let member = fcm.members.first(where: { FCMMessage.isReserved($0.name.text) }) else { return }
    throw field[member.name.text].error("has a name that Google reserves")
  }

  /// Throws the 400 for what Apple or Google is known to refuse, or what would be left out. It is for a caller that can
  /// correct it.
  ///
  /// - Parameter body: the object that it was read from.
  package func checkForProviders(_ body: Field) throws(APIError) {
    let data = body["gcm_payload"]
    try forbidReservedNames(at: data)
    if let member = fcm.members.first(where: { !$0.name.text.isStorable }) {
      throw data[member.name.text].error("has invalid format")
    }
    let size = FCMMessage.size(of: fcmData)
    guard size <= FCMMessage.maximumData else {
      throw data.error("is too large for Google (\(size) bytes, limit: \(FCMMessage.maximumData))")
    }
    try checkOptions()
    if let custom = body["apns_payload"]["custom"].present {
      _ = try custom.members()
      if custom["aps"].value != nil {
        throw custom["aps"].error("is not allowed: Apple has it beside custom")
      }
    }
    let limit = APNsNotification.maximumPayload(.alert)
    guard apnsPayload.readableBytes <= limit else {
      throw body["apns_payload"].error(
        "is too large for Apple (\(apnsPayload.readableBytes) bytes, limit: \(limit))")
    }
  }

  /// The push for an iPhone; nil for a registration that names no app.
  func apnsPush(for registration: Registration, payload: ByteBuffer, now: Date) -> Push? {
    guard let topic = registration.iosAppID else { return nil }
    return .apns(
      APNsNotification(
        token: registration.token.text, topic: topic, payload: payload,
        pushType: isSilentRemoval ? .background : .alert, priority: isSilentRemoval ? 5 : nil,
        expiration: Date(timeIntervalSince1970: (now.timeIntervalSince1970 + Self.lifetime).rounded(.down)),
        environment: registration.environment))
  }

  /// Whether it only removes notifications, and an iPhone shows nothing of it.
  private var isSilentRemoval: Bool {
    apns["alert"] == nil && apns["custom"]?["zulip"]?["event"]?.string == "remove"
  }

  /// The body for APNs: `aps`, and the members of `custom` beside it.
  var apnsPayload: ByteBuffer {
    var aps = apns
    aps["custom"] = nil
    var body = JSON.Object()
    if case .object(let custom)? = apns["custom"] { body = custom }
    body["aps"] = .object(aps)
    return ByteBuffer(bytes: JSON.object(body).bytes)
  }

  /// The data for FCM, converted to text, without members whose names no app could read.
  var fcmData: [String: String] {
    Dictionary(
      fcm.members.lazy.filter { $0.name.text.isStorable }.map { ($0.name.text, $0.value.pythonText) },
      uniquingKeysWith: { $1 })
  }

  /// Priority for FCM. An unknown one counts as none.
  var fcmPriority: FCMMessage.Priority {
    namedPriority ?? (fcm["event"] == "message" ? .high : .normal)
  }

  private var namedPriority: FCMMessage.Priority? {
    options["priority"]?.string.flatMap(FCMMessage.Priority.init)
  }

  /// Adds the members of `gcm_options` that are not known.
  func addUnknownOptions(in additions: inout Additions) {
    additions.addMembers(of: .object(options), at: "gcm_options", except: ["priority"])
    if let priority = options["priority"], namedPriority == nil {
      additions.addValue(priority.string ?? "", of: "gcm_options.priority")
    }
  }

  /// Throws the 400 for options that would be ignored.
  private func checkOptions() throws(APIError) {
    if let priority = options["priority"], namedPriority == nil {
      throw APIError("Invalid GCM option to bouncer: priority \(priority.pythonRepresentation)")
    }
    var others = options
    others["priority"] = nil
    guard others.members.isEmpty else {
      throw APIError("Invalid GCM options to bouncer: \(JSON.object(others).text)")
    }
  }
}

extension JSON {
  /// The value as Python's `str` writes it, which is how old apps get values by FCM
  /// (`Documentation/Protocols/Zulip.md` 7.7).
  var pythonText: String {
    if case .string(let text) = self { text } else { pythonRepresentation }
  }

  /// The value as Python's `repr` writes it.
  fileprivate var pythonRepresentation: String {
    switch self {
    case .null: "None"
    case .bool(let value): value ? "True" : "False"
    case .integer(let value): "\(value)"
    // A whole number beyond 64 bits stays one in Python; others become floating-point.
    case .number(let text):
      text.utf8.contains { ".eE".utf8.contains($0) } ? Double(text).map { "\($0)" } ?? text : text
    case .string(let text): Self.pythonLiteral(text)
    case .array(let elements): "[\(elements.map(\.pythonRepresentation).joined(separator: ", "))]"
    case .object(let object):
      "{"
        + object.members.map { "\(Self.pythonLiteral($0.name.text)): \($0.value.pythonRepresentation)" }
        .joined(separator: ", ") + "}"
    }
  }

  private static func pythonLiteral(_ text: String) -> String {
    let quote: Unicode.Scalar = text.utf8.contains(0x27) && !text.utf8.contains(0x22) ? "\"" : "'"
    var literal = String(quote)
    for scalar in text.unicodeScalars {
      switch scalar {
      case "\n": literal += "\\n"
      case "\r": literal += "\\r"
      case "\t": literal += "\\t"
      case "\\": literal += "\\\\"
      case quote: literal += "\\\(quote)"
      case _ where scalar.value < 0x20 || (0x7F..<0xA1).contains(scalar.value):
        literal += "\\x" + (scalar.value < 0x10 ? "0" : "") + String(scalar.value, radix: 16)
      default: literal.unicodeScalars.append(scalar)
      }
    }
    return literal + String(quote)
  }
}
