import Delivery
import Foundation
import HTTP
import Logging
import NIOCore
import Providers
import Registrations
import Sealing

/// What the legacy calls that are forms have in common: a user, perhaps of a realm, and mostly a token
/// (`Documentation/Protocols/Zulip.md` 7.1 to 7.4).
struct LegacyParameters {
  private(set) var form: Parameters
  private var userID: Int64?
  private var userUUID: String?
  /// The realm's UUID, as it was sent.
  private(set) var realmUUID: String?

  init(_ form: Parameters) {
    self.form = form
  }

  /// Reads whose registration it is about.
  mutating func readUser() throws(APIError) {
    userID = try form.optionalInteger("user_id")
    userUUID = form.optional("user_uuid")
    realmUUID = form.optional("realm_uuid")
  }

  /// Reads the token, which is then to be checked.
  mutating func readToken() throws(APIError) -> (text: String, kind: Int64) {
    (try form.text("token", .stripped()), try form.integer("token_kind"))
  }

  /// The bundle id of an iOS app.
  mutating func readAppID() throws(APIError) -> String? {
    guard let id = form.optional("ios_app_id") else { return nil }
    guard AppID.isValid(id) else { throw APIError.invalidFormat("ios_app_id") }
    return id
  }

  /// The realm; one whose name is no UUID is one that nobody has told of, and not needed.
  var realm: UUID? { realmUUID.flatMap(UUID.init(pythonText:)) }

  /// The user, once everything before it in the order of checks was right.
  func user() throws(APIError) -> LegacyUser { try LegacyUser(id: userID, uuidText: userUUID) }
}

extension LegacyUser {
  /// A user by what a server has sent.
  init(id: Int64?, uuidText: String?) throws(APIError) {
    let uuid = uuidText.flatMap(UUID.init(pythonText:))
    if uuidText != nil, uuid == nil { throw APIError.invalidFormat("user_uuid") }
    guard let user = LegacyUser(id: id, uuid: uuid) else {
      throw APIError.missingParameter("user_id or user_uuid")
    }
    self = user
  }
}

extension PushToken {
  /// A token with Zulip's number for its kind.
  init(_ text: String, legacyKind: Int64) throws(APIError) {
    guard let kind = Kind(storage: legacyKind) else { throw APIError.invalidTokenType }
    do {
      self = try PushToken(text, kind: kind)
    } catch {
      throw APIError(error.description)
    }
  }
}

/// A notification in clear with the devices it goes to.
struct LegacyBatch {
  private(set) var deliveries: [RegisteredPush] = []

  /// - Parameter owner: the chat server.
  /// - Throws: the 400 that the options for FCM deserve, if there is a device that they would be used for and
  ///   none beside it that can be sent to.
  init(
    _ notification: LegacyNotification, to registrations: [Registration], of owner: Owner, now: Date,
    logger: Logger
  ) throws(APIError) {
    // What all of them get is made once.
    let apple = registrations.filter { $0.token.kind == .apns }
    if notification.hasAPNs, !apple.isEmpty {
      let payload = notification.apnsPayload
      for registration in apple {
        guard let push = notification.apnsPush(for: registration, payload: payload, now: now) else {
          logger.error("registration without app id", metadata: ["legacy_registration": "\(registration.reference.id)"])
          continue
        }
        deliveries.append(RegisteredPush(push: push, registration: registration.reference, owner: owner))
      }
    }
    let android = registrations.filter { $0.token.kind == .fcm }
    guard notification.hasFCM, !android.isEmpty else { return }
    var faults = ItemFaults()
    defer { faults.report(to: logger) }
    do {
      let (data, priority) = (notification.fcmData, try notification.fcmPriority())
      lazy var body = ByteBuffer(bytes: JSON(data).bytes)
      for registration in android {
        do throws(ItemFault) {
          let push = try Push(toAndroid: registration.token, data: data, body: body, priority: priority)
          deliveries.append(RegisteredPush(push: push, registration: registration.reference, owner: owner))
        } catch {
          faults.add(error)
        }
      }
    } catch {
      guard !deliveries.isEmpty else { throw error }
      faults.add(.malformed(error))
    }
  }
}

extension JSON {
  /// An object of texts, always in the same order.
  fileprivate init(_ texts: [String: String]) {
    self = .object(Object(texts.sorted { $0.key < $1.key }.map { .init($0.key, .string($0.value)) }))
  }
}

extension JSON {
  /// As Python's `str` writes it, which is how values reach old apps through FCM
  /// (`Documentation/Protocols/Zulip.md` 7.7).
  var pythonText: String {
    if case .string(let text) = self { text } else { pythonRepresentation }
  }

  /// As Python's `repr` writes it.
  var pythonRepresentation: String {
    switch self {
    case .null: "None"
    case .bool(let value): value ? "True" : "False"
    case .integer(let value): "\(value)"
    case .number(let text): Self.pythonNumber(text)
    case .string(let text): Self.pythonLiteral(text)
    case .array(let elements): "[\(elements.map(\.pythonRepresentation).joined(separator: ", "))]"
    case .object(let object):
      "{"
        + object.members.map { "\(Self.pythonLiteral($0.name.text)): \($0.value.pythonRepresentation)" }
        .joined(separator: ", ") + "}"
    }
  }

  /// A whole number too large for 64 bits is one in Python; others are floating-point.
  private static func pythonNumber(_ text: String) -> String {
    guard text.utf8.contains(where: { ".eE".utf8.contains($0) }), let value = Double(text) else {
      return text
    }
    return "\(value)"
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
