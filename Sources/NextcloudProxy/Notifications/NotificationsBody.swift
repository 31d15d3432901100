internal import HTTP
internal import HTTPTypes
internal import NIOCore

/// The body of `POST /notifications`: a form whose values are JSON texts, as PHP builds it from an array, or
/// a JSON object.
enum NotificationsBody {
  /// The entries as they were sent; nil stands for one that cannot be read. Each is read by itself.
  static func entries(_ body: ByteBuffer, type: String, maximum: Int) throws(ProxyError)
    -> [NotificationEntry?]
  {
    if type.contains(ascii: "json") || body.readableBytesView.first == UInt8(ascii: "{") {
      return try entries(json: body, maximum: maximum)
    }
    // A form may have other fields too, which count for nothing but must end somewhere.
    guard let fields = Form.parse(body.readableBytesView, maximumFields: maximum + Form.maximumFields) else {
      throw tooMany(maximum)
    }
    let values = fields.filter { isNotification($0.name) }
    guard !values.isEmpty else { throw missing }
    guard values.count <= maximum else { throw tooMany(maximum) }
    return values.map { NotificationEntry(text: $0.value) }
  }

  private static func entries(json body: ByteBuffer, maximum: Int) throws(ProxyError) -> [NotificationEntry?]
  {
    guard let json = try? JSON.parse(body) else { throw ProxyError("The body is not valid JSON.") }
    guard case .array(let values)? = json["notifications"] else { throw missing }
    guard values.count <= maximum else { throw tooMany(maximum) }
    return values.map { value in
      if case .string(let text) = value { NotificationEntry(text: text) } else { NotificationEntry(value) }
    }
  }

  /// `notifications`, `notifications[]`, `notifications[7]`.
  private static func isNotification(_ name: Name) -> Bool {
    let name = name.text
    return name.utf8.starts(with: "notifications".utf8)
      && (name.utf8.count == 13 || name.utf8.dropFirst(13).first == UInt8(ascii: "["))
  }

  private static var missing: ProxyError {
    ProxyError("There are no notifications: send them as a form with notifications[0], notifications[1] ...")
  }

  private static func tooMany(_ maximum: Int) -> ProxyError {
    ProxyError(.contentTooLarge, "There are too many notifications: send at most \(maximum) at a time.")
  }
}
