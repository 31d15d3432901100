import Foundation
import HTTP
package import Providers
import Sealing
import Synchronization

/// An app that the proxy knows, recognized by the `User-Agent` of its registrations (`nextcloud.apps_file`
/// adds the operator's own).
package struct NextcloudApp: Sendable {
  /// The kind of app, which decides what it is sent (`Documentation/Protocols/Nextcloud.md` 6.3). The raw
  /// values are stored in the database.
  package enum Kind: Int64, Sendable, Hashable, CaseIterable {
    case talk = 1
    case files = 2
    /// Any other app, including unknown ones.
    case other = 3
  }

  /// The platform whose push tokens the app has.
  package enum Platform: String, Sendable {
    case ios, android
  }

  /// Thrown for a text that describes no app.
  package struct Malformed: Error, Hashable, CustomStringConvertible {
    package let description: String
  }

  /// Name for the operator.
  package let name: String
  package let kind: Kind
  package let platform: Platform
  package let apnsTopic: String?
  /// The app's Firebase project; nil for the default one.
  package let fcmProject: String?
  private let userAgent: NSRegularExpression
  /// The regular expression as the operator has written it.
  package var userAgentPattern: String { userAgent.pattern }

  /// - Parameter userAgent: a regular expression that must match somewhere in the `User-Agent`.
  init(
    name: String, userAgent: String, kind: Kind, platform: Platform, apnsTopic: String? = nil,
    fcmProject: String? = nil
  ) throws(Malformed) {
    guard let expression = try? NSRegularExpression(pattern: userAgent) else {
      throw Malformed(description: "user_agent of \(name) is no regular expression")
    }
    guard platform == .android || apnsTopic != nil else {
      throw Malformed(description: "\(name) is for iOS and lacks apns_topic")
    }
    self.name = name
    self.userAgent = expression
    self.kind = kind
    self.platform = platform
    self.apnsTopic = apnsTopic
    self.fcmProject = fcmProject
  }

  func matches(_ text: String) -> Bool {
    userAgent.firstMatch(in: text, range: NSRange(text.startIndex..., in: text)) != nil
  }

  /// The destination of a token of this app; nil if the app cannot have such a token.
  ///
  /// - Parameter userAgents: names of the caller. Talk of 2018 to 2020 marks its only token as a PushKit one
  ///   with `(PushKit)`.
  func destination(of shape: TokenShape, userAgents: [String]) -> NextcloudDevice.Destination? {
    let kind: NextcloudDevice.Destination.Kind
    switch (platform, shape) {
    case (.ios, .apns): kind = userAgents.contains { $0.utf8.contains("(PushKit)".utf8) } ? .pushKit : .apns
    case (.ios, .apnsAndPushKit): kind = .apns
    case (.android, .apns), (.android, .fcm): kind = .fcm
    case (.ios, .fcm), (.android, .apnsAndPushKit): return nil
    }
    return .init(kind: kind, app: name, target: kind == .fcm ? fcmProject : apnsTopic)
  }
}

extension NextcloudApp {
  package static let kinds: [String: Kind] = ["talk": .talk, "files": .files, "other": .other]

  /// Reads the contents of `nextcloud.apps_file`.
  package static func read(_ bytes: [UInt8]) throws(Malformed) -> [NextcloudApp] {
    do {
      return try Field(JSON.parse(bytes), path: "apps").elements().map(NextcloudApp.init)
    } catch let error as Malformed {
      throw error
    } catch let error as JSON.ParseError {
      throw Malformed(description: "is no JSON: \(error.explanation(in: bytes))")
    } catch {
      throw Malformed(description: (error as? APIError)?.message ?? "is not valid JSON")
    }
  }

  private init(_ field: Field) throws {
    func text(_ name: String) throws -> String? {
      guard let field = field[name].present else { return nil }
      guard case let text = try field.string(), !text.isEmpty else { throw field.error("is empty") }
      return text
    }
    func required(_ name: String) throws -> String {
      guard let text = try text(name) else { throw field[name].error("field is missing") }
      return text
    }
    guard let kind = Self.kinds[try required("kind")] else {
      throw field["kind"].error("is not talk, files or other")
    }
    guard let platform = Platform(rawValue: try required("platform")) else {
      throw field["platform"].error("is not ios or android")
    }
    try self.init(
      name: required("name"), userAgent: required("user_agent"), kind: kind, platform: platform,
      apnsTopic: text("apns_topic"), fcmProject: text("fcm_project"))
  }
}

/// The apps that the proxy knows, and how it recognizes the app of a token: no field of the protocol names
/// it, and a wrong guess would send pushes to another app.
package struct NextcloudApps: Sendable {
  /// Length in bytes of the part of a `User-Agent` that is read.
  private static let maximumUserAgent = 512

  /// The operator's own apps, which are tried first.
  package let own: [NextcloudApp]
  private let apps: [NextcloudApp]
  /// The app that unknown ones are treated as; nil if they are refused.
  package let standard: NextcloudApp?

  /// Knows only the apps that Nextcloud ships.
  package init() {
    own = []
    apps = Self.builtIn
    standard = nil
  }

  /// - Parameters:
  ///   - own: the operator's apps, which are tried before the built-in ones.
  ///   - standard: name of the app that unknown ones are treated as; nil to refuse them.
  package init(own: [NextcloudApp], default standard: String? = nil) throws(NextcloudApp.Malformed) {
    let apps = own + Self.builtIn
    self.own = own
    self.apps = apps
    self.standard = standard.flatMap { name in apps.first { $0.name.utf8.elementsEqual(name.utf8) } }
    guard standard == nil || self.standard != nil else {
      let names = apps.map(\.name).joined(separator: ", ")
      throw NextcloudApp.Malformed(description: "names none of these apps: \(names)")
    }
  }

  /// The kind of the operator's own app with this `User-Agent`; nil if it is not one of those.
  package func ownKind(of userAgent: String) -> NextcloudApp.Kind? {
    let userAgent = Self.beginning(of: userAgent)
    return own.first { $0.matches(userAgent) }?.kind
  }

  /// The operator's own apps that no credential serves, each with what is missing.
  package func unserved(by credentials: Credentials) -> [String] {
    let topics = Set(credentials.apns.flatMap(\.topics).map { Array($0.utf8) })
    let projects = Set(credentials.fcm.map { Array($0.projectID.utf8) })
    return own.compactMap { app in
      switch app.platform {
      case .ios:
        guard let topic = app.apnsTopic, !topics.contains(Array(topic.utf8)) else { return nil }
        return "\(app.name): no key in Keys/apns lists \(topic)"
      case .android:
        guard let project = app.fcmProject, !projects.contains(Array(project.utf8)) else { return nil }
        return "\(app.name): no service account in Keys/fcm is of \(project)"
      }
    }
  }

  /// The app of a caller; nil if it is unknown.
  ///
  /// - Parameter userAgents: names of the caller, the most specific first.
  package func app(of userAgents: [String]) -> NextcloudApp? {
    let userAgents = userAgents.map(Self.beginning)
    return apps.first { userAgents.contains(where: $0.matches) } ?? standard
  }

  private static func beginning(of userAgent: String) -> String {
    String(decoding: userAgent.utf8.prefix(maximumUserAgent), as: UTF8.self)
  }

  private static let builtIn = [
    builtIn("Talk for iOS", #"\(iOS\) Nextcloud-Talk"#, .talk, .ios, topic: "com.nextcloud.Talk"),
    builtIn(
      "Files for iOS", #"\(iOS\) (?:ownCloud|Nextcloud)-iOS"#, .files, .ios, topic: "it.twsweb.Nextcloud"),
    builtIn("Talk for Android", #"\(Android\) Nextcloud-Talk"#, .talk, .android),
    builtIn("Files for Android", #"\(Android\) (?:ownCloud|Nextcloud)-android"#, .files, .android),
  ]

  private static func builtIn(
    _ name: String, _ userAgent: String, _ kind: NextcloudApp.Kind, _ platform: NextcloudApp.Platform,
    topic: String? = nil
  ) -> NextcloudApp {
    do {
      return try NextcloudApp(
        name: name, userAgent: userAgent, kind: kind, platform: platform, apnsTopic: topic)
    } catch {
      preconditionFailure("\(error)")
    }
  }
}

/// Remembers the `User-Agent`s of unknown apps, so that each is logged once.
final class UnknownApps: Sendable {
  /// Maximum number of names that are logged in a day, since a caller can invent any number.
  static let maximum = 100
  private static let day: TimeInterval = 86_400
  private static let maximumBytes = 200

  private let now: @Sendable () -> Date
  private let logged = Mutex<(since: Date, names: Set<String>)>((.distantPast, []))

  init(now: @escaping @Sendable () -> Date) {
    self.now = now
  }

  /// Returns the name in a form safe to log, or nil if it has been logged already.
  func add(_ userAgent: String) -> String? {
    let name = Self.printable(userAgent)
    let now = now()
    return logged.withLock { logged in
      if logged.names.count >= Self.maximum, !(0..<Self.day).contains(now.timeIntervalSince(logged.since)) {
        logged.names = []
      }
      if logged.names.isEmpty { logged.since = now }
      guard logged.names.count < Self.maximum, logged.names.insert(name).inserted else { return nil }
      return name
    }
  }

  /// Replaces all but printable ASCII, and cuts the text.
  private static func printable(_ text: String) -> String {
    let bytes = text.utf8.prefix(maximumBytes).map { (0x20...0x7E).contains($0) ? $0 : UInt8(ascii: "?") }
    return bytes.isEmpty ? "(none)" : String(decoding: bytes, as: UTF8.self)
  }
}

/// The form of a text that may be a push token.
enum TokenShape: Hashable {
  /// An even number of 64 to 200 hexadecimal digits: an APNs or PushKit token, but FCM tokens may look like
  /// that too.
  case apns
  /// Two of those separated by a space, as Talk on iOS sends them.
  case apnsAndPushKit
  /// 32 to 1024 letters, digits, `_`, `-` and `:`, or a Firebase installation id.
  case fcm

  init?(_ token: String) {
    let parts = token.utf8.split(separator: UInt8(ascii: " "), omittingEmptySubsequences: false)
    switch parts.count {
    case 1 where Self.isAPNs(parts[0]): self = .apns
    case 2 where parts.allSatisfy(Self.isAPNs): self = .apnsAndPushKit
    case 1 where FCMMessage.isInstallationID(token): self = .fcm
    case 1 where (32...PushToken.longest).contains(parts[0].count) && parts[0].allSatisfy(Self.isFCM):
      self = .fcm
    default: return nil
    }
  }

  private static func isAPNs(_ token: Substring.UTF8View) -> Bool {
    (64...200).contains(token.count) && token.count.isMultiple(of: 2)
      && token.allSatisfy { $0.hexadecimalValue != nil }
  }

  private static func isFCM(_ byte: UInt8) -> Bool { byte.isASCIILetterOrDigit || "_-:".utf8.contains(byte) }
}
