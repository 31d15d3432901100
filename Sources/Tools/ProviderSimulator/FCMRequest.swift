import Foundation
import HTTP
import NIOCore

/// The body of `messages:send`, read as strictly as Google reads it (Firebase: REST Resource projects.messages).
struct FCMRequest {
  /// Whom it is for: `token` or `fid`.
  let recipient: String
  let validateOnly: Bool

  /// Throws the answer that Google would give.
  init(_ body: ByteBuffer) throws(Refusal) {
    guard let json = try? JSON.parse(body), case .object = json else {
      throw .invalid("", "Invalid JSON payload received.")
    }
    let root = try Message(json, at: "", allowed: ["message", "validate_only", "validateOnly"])
    var validateOnly = try root.bool("validate_only")
    if validateOnly == nil { validateOnly = try root.bool("validateOnly") }
    self.validateOnly = validateOnly ?? false
    guard
      let message = try root.message(
        "message",
        allowed: [
          "name", "data", "notification", "android", "webpush", "apns", "fcm_options", "fcmOptions", "token",
          "fid", "topic", "condition",
        ])
    else { throw .invalid("message", "Message is missing.") }
    let recipients = ["token", "fid", "topic", "condition"].filter { message.object[$0] != nil }
    guard recipients.count == 1, let member = recipients.first, ["token", "fid"].contains(member) else {
      throw .invalid("message", "Recipient of the message is not set: exactly one token or fid is needed.")
    }
    recipient = try message.string(member) ?? ""
    let size = try message.dataSize() + Self.sizeOfAndroid(in: message)
    guard size <= 4096 else { throw .invalid("message", "Android message is too big") }
    // An installation id is taken for a token, too, but no token for an installation id.
    guard !recipient.isEmpty, recipient.utf8.count <= 4096,
      recipient.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7f }),
      member == "token" || recipient.wholeMatch(of: /[c-f][A-Za-z0-9_-]{21}/) != nil
    else { throw .invalidFCMToken }
  }

  /// The size of `android.data`.
  private static func sizeOfAndroid(in message: Message) throws(Refusal) -> Int {
    guard
      let android = try message.message(
        "android",
        allowed: [
          "collapse_key", "collapseKey", "priority", "ttl", "restricted_package_name",
          "restrictedPackageName", "data", "notification", "fcm_options", "fcmOptions", "direct_boot_ok",
          "directBootOk", "bandwidth_constrained_ok", "bandwidthConstrainedOk", "restricted_satellite_ok",
          "restrictedSatelliteOk",
        ])
    else { return 0 }
    if let priority = try android.string("priority"), !["HIGH", "NORMAL"].contains(priority.uppercased()) {
      throw .invalid(
        "message.android.priority",
        "Invalid value at 'message.android.priority' "
          + "(type.googleapis.com/google.firebase.fcm.v1.AndroidMessagePriority), \"\(priority)\"")
    }
    // protobuf's JSON form of a Duration; four weeks at most.
    if let ttl = try android.string("ttl"),
      ttl.wholeMatch(of: /\d{1,7}(\.\d{1,9})?s/) == nil || (Double(ttl.dropLast()) ?? .infinity) > 2_419_200
    {
      throw .invalid(
        "message.android.ttl",
        "Invalid value at 'message.android.ttl' (type.googleapis.com/google.protobuf.Duration), \"\(ttl)\"")
    }
    return try android.dataSize()
  }
}

/// An object of a message, read with Google's errors.
private struct Message {
  let object: JSON.Object
  private let path: String

  /// Google refuses members that it does not know.
  init(_ json: JSON, at path: String, allowed: Set<String>?) throws(Refusal) {
    guard case .object(let object) = json else { throw .invalid(path, "Invalid value at '\(path)'") }
    self.object = object
    self.path = path
    guard let allowed else { return }
    for member in object.members where !allowed.contains(member.name.text) {
      throw .invalid(
        path,
        "Invalid JSON payload received. Unknown name \"\(member.name)\"\(path.isEmpty ? "" : " at '\(path)'"): "
          + "Cannot find field.")
    }
  }

  private func path(_ name: String) -> String { path.isEmpty ? name : "\(path).\(name)" }

  func message(_ name: String, allowed: Set<String>?) throws(Refusal) -> Message? {
    guard let value = object[name] else { return nil }
    return try Message(value, at: path(name), allowed: allowed)
  }

  func string(_ name: String) throws(Refusal) -> String? {
    switch object[name] {
    case nil: nil
    case .string(let text): text
    default: throw .invalid(path(name), "Invalid value at '\(path(name))' (TYPE_STRING)")
    }
  }

  func bool(_ name: String) throws(Refusal) -> Bool? {
    switch object[name] {
    case nil: nil
    case .bool(let value): value
    default: throw .invalid(path(name), "Invalid value at '\(path(name))' (TYPE_BOOL)")
    }
  }

  /// The bytes of `data`, a map of strings; other values and reserved keys are refused (Firebase: "The key should not
  /// be a reserved word").
  func dataSize() throws(Refusal) -> Int {
    guard let data = try message("data", allowed: nil) else { return 0 }
    var size = 0
    for (index, member) in data.object.members.enumerated() {
      let name = member.name.text
      let place = "\(data.path)[\(index)]"
      if ["from", "message_type"].contains(name)
        || ["google.", "gcm.notification"].contains(where: name.hasPrefix)
      {
        throw .invalid("\(place).key", "Invalid data payload key: \(name)")
      }
      guard case .string(let text) = member.value else {
        throw .invalid("\(place).value", "Invalid value at '\(place).value' (TYPE_STRING)")
      }
      size += name.utf8.count + text.utf8.count
    }
    return size
  }
}

extension Refusal {
  /// The message is wrong at `field`.
  fileprivate static func invalid(_ field: String, _ message: String) -> Refusal {
    .fcm(400, message, field: field)
  }
}
