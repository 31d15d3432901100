internal import Registrations

/// The apps that the proxy knows, and how it finds out which one a token is of: no field says so
/// (`spec/nextcloud.md` 5.1).
public struct NextcloudApps: Sendable {
  /// More of a `User-Agent` is not looked at.
  private static let maximumUserAgent = 512

  private let own: [NextcloudApp]
  private let apps: [NextcloudApp]

  /// - Parameter own: the operator's, which are tried before the built-in ones.
  public init(own: [NextcloudApp] = []) {
    self.own = own
    apps = own + [Self.talkIOS, Self.filesIOS, Self.talkAndroid, Self.filesAndroid]
  }

  /// What an app of the operator's is for that calls itself so; nil for any other.
  public func ownKind(of userAgent: String) -> NextcloudApp.Kind? {
    let userAgent = String(userAgent.prefix(Self.maximumUserAgent))
    return own.first { $0.matches(userAgent) }?.kind
  }

  /// Where a token is good.
  ///
  /// - Parameter userAgents: what the caller calls itself, the more telling first.
  /// - Returns: nil for a text that cannot be a token, or not one of this app.
  func destination(of token: String, userAgents: [String]) -> NextcloudDevice.Destination? {
    guard let shape = TokenShape(token) else { return nil }
    let userAgents = userAgents.map { String($0.prefix(Self.maximumUserAgent)) }
    let app = apps.first { userAgents.contains(where: $0.matches) } ?? Self.guess(shape, userAgents)
    switch (app.platform, shape) {
    case (.ios, .apns):
      return app.destination(userAgents.contains { $0.contains("(PushKit)") } ? .pushKit : .apns)
    case (.ios, .apnsAndPushKit): return app.destination(.apns)
    case (.android, .apns), (.android, .fcm): return app.destination(.fcm)
    case (.ios, .fcm), (.android, .apnsAndPushKit): return nil
    }
  }

  /// Of a caller that nobody knows the token has to tell. Two tokens at once are Talk's.
  private static func guess(_ shape: TokenShape, _ userAgents: [String]) -> NextcloudApp {
    switch shape {
    case .fcm: return otherAndroid
    case .apnsAndPushKit: return talkIOS
    case .apns:
      if userAgents.contains(where: { $0.contains("(Android)") }) { return otherAndroid }
      return userAgents.contains { $0.contains("Talk") } ? talkIOS : filesIOS
    }
  }

  private static let talkIOS = builtIn(
    "Talk for iOS", #"\(iOS\) Nextcloud-Talk"#, .talk, .ios, topic: "com.nextcloud.Talk")
  private static let filesIOS = builtIn(
    "Files for iOS", #"\(iOS\) (?:ownCloud|Nextcloud)-iOS"#, .files, .ios, topic: "it.twsweb.Nextcloud")
  private static let talkAndroid = builtIn(
    "Talk for Android", #"\(Android\) Nextcloud-Talk"#, .talk, .android)
  private static let filesAndroid = builtIn(
    "Files for Android", #"\(Android\) (?:ownCloud|Nextcloud)-android"#, .files, .android)
  private static let otherAndroid = builtIn("other", "^", .other, .android)

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
