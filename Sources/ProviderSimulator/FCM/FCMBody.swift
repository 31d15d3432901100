import Foundation

/// FCM's request body, checked (Firebase, REST reference, `projects.messages.send`).
struct FCMBody {
  /// A field that is wrong, as Google names it.
  struct Violation: Error {
    var field: String
    var description: String
  }

  let token: String
  let isOnlyValidated: Bool

  init(_ json: Data) throws(Violation) {
    guard let root = (try? JSONSerialization.jsonObject(with: json)) as? [String: Any] else {
      throw Violation(field: "", description: "Invalid JSON payload received.")
    }
    try Self.expect(root, only: ["message", "validate_only", "validateOnly"], in: "")
    guard let message = root["message"] as? [String: Any] else {
      throw Violation(field: "message", description: "Message is missing.")
    }
    try Self.expect(
      message,
      only: ["name", "data", "notification", "android", "webpush", "apns", "fcm_options", "fcmOptions", "token"],
      in: "message.")
    guard let token = message["token"] as? String, !token.isEmpty else {
      throw Violation(field: "message.token", description: "Recipient of the message is not set.")
    }
    if let data = message["data"] {
      guard let fields = data as? [String: Any] else {
        throw Violation(field: "message.data", description: "Invalid value: expected an object.")
      }
      var size = 0
      for (name, value) in fields {
        guard let text = value as? String else {
          throw Violation(field: "message.data[\(name)]", description: "Invalid value (TYPE_STRING).")
        }
        size += name.utf8.count + text.utf8.count
      }
      guard size <= 4096 else { throw Violation(field: "message.data", description: "Message is too big.") }
    }
    if let android = message["android"] { try Self.check(android) }
    self.token = token
    isOnlyValidated = (root["validate_only"] ?? root["validateOnly"]) as? Bool ?? false
  }

  private static func check(_ android: Any) throws(Violation) {
    guard let android = android as? [String: Any] else {
      throw Violation(field: "message.android", description: "Invalid value: expected an object.")
    }
    if let priority = android["priority"] {
      guard let text = priority as? String, ["high", "normal"].contains(text.lowercased()) else {
        throw Violation(field: "message.android.priority", description: "Invalid value (AndroidMessagePriority).")
      }
    }
    if let ttl = android["ttl"] {
      guard let text = ttl as? String, text.hasSuffix("s"), let seconds = Double(text.dropLast()),
        seconds >= 0, seconds <= 2_419_200
      else { throw Violation(field: "message.android.ttl", description: "Invalid duration.") }
    }
  }

  private static func expect(_ object: [String: Any], only names: Set<String>, in path: String) throws(Violation) {
    for name in object.keys where !names.contains(name) {
      throw Violation(field: path + name, description: "Unknown name \"\(name)\": Cannot find field.")
    }
  }
}
