import Foundation
import NIOCore
import NIOFoundationCompat

/// The body of `messages:send`, read as strictly as Google reads it (Firebase: REST Resource projects.messages).
struct FCMRequest: Decodable {
  /// Whom it is for: `token` or `fid`.
  let recipient: String
  let validateOnly: Bool

  /// Throws the answer that Google would give.
  init(_ body: ByteBuffer) throws(FCMStatus) {
    do {
      self = try JSONDecoder().decode(FCMRequest.self, from: body)
    } catch let status as FCMStatus {
      throw status
    } catch let DecodingError.typeMismatch(_, context) {
      throw .invalid(Self.path(context.codingPath), "Invalid value at '\(Self.path(context.codingPath))'")
    } catch {
      throw .invalid("", "Invalid JSON payload received.")
    }
  }

  init(from decoder: any Decoder) throws {
    let root = try decoder.container(keyedBy: AnyKey.self)
    try root.allow(["message", "validate_only", "validateOnly"], at: "")
    validateOnly = try root.bool("validate_only", "validateOnly", at: "")
    guard root.contains("message") else { throw FCMStatus.invalid("message", "Message is missing.") }
    let message = try root.nestedContainer(keyedBy: AnyKey.self, forKey: "message")
    try message.allow(
      [
        "name", "data", "notification", "android", "webpush", "apns", "fcm_options", "fcmOptions", "token",
        "fid", "topic", "condition",
      ], at: "message")
    let recipients = ["token", "fid", "topic", "condition"].filter { message.contains(AnyKey($0)) }
    guard recipients.count == 1, let member = recipients.first, ["token", "fid"].contains(member) else {
      throw FCMStatus.invalid(
        "message", "Recipient of the message is not set: exactly one token or fid is needed.")
    }
    recipient = try message.string(AnyKey(member), at: "message.\(member)")
    var size = 0
    if message.contains("data") {
      size += try message.nestedContainer(keyedBy: AnyKey.self, forKey: "data").dataSize(at: "message.data")
    }
    if message.contains("android") {
      size += try Self.checkAndroid(message.nestedContainer(keyedBy: AnyKey.self, forKey: "android"))
    }
    guard size <= 4096 else { throw FCMStatus.invalid("message", "Android message is too big") }
    // An installation id is taken for a token, too, but no token for an installation id.
    guard !recipient.isEmpty, recipient.utf8.count <= 4096,
      recipient.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7f }),
      member == "token" || recipient.wholeMatch(of: /[c-f][A-Za-z0-9_-]{21}/) != nil
    else { throw FCMStatus.invalidToken }
  }

  /// The size of `android.data`.
  private static func checkAndroid(_ android: KeyedDecodingContainer<AnyKey>) throws -> Int {
    try android.allow(
      [
        "collapse_key", "collapseKey", "priority", "ttl", "restricted_package_name", "restrictedPackageName",
        "data",
        "notification", "fcm_options", "fcmOptions", "direct_boot_ok", "directBootOk",
        "bandwidth_constrained_ok",
        "bandwidthConstrainedOk", "restricted_satellite_ok", "restrictedSatelliteOk",
      ], at: "message.android")
    if android.contains("priority") {
      let priority = try android.string("priority", at: "message.android.priority")
      guard ["HIGH", "NORMAL"].contains(priority.uppercased()) else {
        throw FCMStatus.invalid(
          "message.android.priority",
          "Invalid value at 'message.android.priority' "
            + "(type.googleapis.com/google.firebase.fcm.v1.AndroidMessagePriority), \"\(priority)\"")
      }
    }
    if android.contains("ttl") {
      let ttl = try android.string("ttl", at: "message.android.ttl")
      // protobuf's JSON form of a Duration; four weeks at most.
      guard ttl.wholeMatch(of: /\d{1,7}(\.\d{1,9})?s/) != nil,
        (Double(ttl.dropLast()) ?? .infinity) <= 2_419_200
      else {
        throw FCMStatus.invalid(
          "message.android.ttl",
          "Invalid value at 'message.android.ttl' (type.googleapis.com/google.protobuf.Duration), \"\(ttl)\"")
      }
    }
    guard android.contains("data") else { return 0 }
    return try android.nestedContainer(keyedBy: AnyKey.self, forKey: "data").dataSize(
      at: "message.android.data")
  }

  private static func path(_ keys: [any CodingKey]) -> String {
    keys.map(\.stringValue).joined(separator: ".")
  }
}

/// Any member name.
private struct AnyKey: CodingKey, ExpressibleByStringLiteral {
  let stringValue: String
  var intValue: Int? { nil }

  init(_ name: String) { stringValue = name }
  init(stringLiteral name: String) { stringValue = name }
  init?(stringValue: String) { self.stringValue = stringValue }
  init?(intValue: Int) { nil }
}

extension KeyedDecodingContainer<AnyKey> {
  /// Google refuses members it does not know.
  fileprivate func allow(_ names: Set<String>, at field: String) throws {
    for key in allKeys where !names.contains(key.stringValue) {
      throw FCMStatus.invalid(
        field,
        "Invalid JSON payload received. Unknown name \"\(key.stringValue)\"\(field.isEmpty ? "" : " at '\(field)'"): "
          + "Cannot find field.")
    }
  }

  fileprivate func string(_ key: AnyKey, at field: String) throws -> String {
    guard let value = try? decode(String.self, forKey: key) else {
      throw FCMStatus.invalid(field, "Invalid value at '\(field)' (TYPE_STRING)")
    }
    return value
  }

  fileprivate func bool(_ names: AnyKey..., at field: String) throws -> Bool {
    for name in names where contains(name) {
      guard let value = try? decode(Bool.self, forKey: name) else {
        throw FCMStatus.invalid(name.stringValue, "Invalid value at '\(name.stringValue)' (TYPE_BOOL)")
      }
      return value
    }
    return false
  }

  /// The bytes of a map of strings; other values and reserved keys are refused (Firebase: "The key should not be a
  /// reserved word").
  fileprivate func dataSize(at field: String) throws -> Int {
    var size = 0
    for (index, key) in allKeys.enumerated() {
      let name = key.stringValue
      if name == "from" || name == "message_type" || name.hasPrefix("google") || name.hasPrefix("gcm") {
        throw FCMStatus.invalid("\(field)[\(index)].key", "Invalid data payload key: \(name)")
      }
      size += try name.utf8.count + string(key, at: "\(field)[\(index)].value").utf8.count
    }
    return size
  }
}
