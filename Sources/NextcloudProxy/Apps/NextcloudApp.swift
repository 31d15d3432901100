internal import Foundation
internal import HTTP

/// An app as the proxy tells it from others: by the `User-Agent` that it registers with
/// (`nextcloud.apps_file` names own ones).
package struct NextcloudApp: Sendable {
  /// What it is for.
  package enum Kind: String, Sendable, Hashable, CaseIterable {
    case talk, files, other
  }

  /// Whose tokens it has.
  package enum Platform: String, Sendable, Hashable, CaseIterable {
    case ios, android
  }

  /// A text that describes no app.
  package struct Malformed: Error, Hashable, CustomStringConvertible {
    /// What is wrong, for the operator.
    package let description: String
  }

  /// Its name, for the operator.
  package let name: String
  /// What it is for.
  package let kind: Kind
  /// Whose tokens it has.
  let platform: Platform
  /// Its bundle id.
  let apnsTopic: String?
  /// Its Firebase project; nil is the default one.
  let fcmProject: String?
  private let userAgent: NSRegularExpression

  /// An app by its parts.
  ///
  /// - Parameter userAgent: a regular expression that must match somewhere in the `User-Agent`.
  package init(
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

  /// Whether this is the app that calls itself so.
  func matches(_ text: String) -> Bool {
    userAgent.firstMatch(in: text, range: NSRange(text.startIndex..., in: text)) != nil
  }

  /// Where a token of this app is good; nil for one that it cannot have.
  ///
  /// - Parameter userAgents: what the caller calls itself. Talk of 2018 to 2020 says with `(PushKit)` that its
  ///   only token is one.
  func destination(of shape: TokenShape, userAgents: [String]) -> NextcloudDevice.Destination? {
    let kind: NextcloudDevice.Destination.Kind
    switch (platform, shape) {
    case (.ios, .apns): kind = userAgents.contains { $0.utf8.contains("(PushKit)".utf8) } ? .pushKit : .apns
    case (.ios, .apnsAndPushKit): kind = .apns
    case (.android, .apns), (.android, .fcm): kind = .fcm
    case (.ios, .fcm), (.android, .apnsAndPushKit): return nil
    }
    return .init(kind, app: name, target: kind == .fcm ? fcmProject : apnsTopic)
  }
}

extension NextcloudApp {
  /// Reads `nextcloud.apps_file`.
  package static func read(_ bytes: [UInt8]) throws(Malformed) -> [NextcloudApp] {
    guard let json = try? JSON.parse(bytes), case .array(let elements) = json else {
      throw Malformed(description: "must be a JSON array of objects")
    }
    var apps: [NextcloudApp] = []
    for (index, element) in elements.enumerated() {
      func text(_ name: String) throws(Malformed) -> String? {
        switch element[name] {
        case nil, .null: return nil
        case .string(let text) where !text.isEmpty: return text
        default: throw Malformed(description: "\(name) of entry \(index) must be a text")
        }
      }
      func required(_ name: String) throws(Malformed) -> String {
        guard let text = try text(name) else { throw Malformed(description: "entry \(index) lacks \(name)") }
        return text
      }
      guard let kind = Kind(rawValue: try required("kind")) else {
        throw Malformed(description: "kind of entry \(index) must be talk, files or other")
      }
      guard let platform = Platform(rawValue: try required("platform")) else {
        throw Malformed(description: "platform of entry \(index) must be ios or android")
      }
      apps.append(
        try NextcloudApp(
          name: try required("name"), userAgent: try required("user_agent"), kind: kind, platform: platform,
          apnsTopic: try text("apns_topic"), fcmProject: try text("fcm_project")))
    }
    return apps
  }
}
