/// The apps that the proxy knows, and how it finds out which app a token belongs to: no field of the protocol says
/// so, and a wrong guess would send pushes to another app.
package struct NextcloudApps: Sendable {
  /// More bytes of a `User-Agent` are not looked at.
  private static let maximumUserAgent = 512

  private let own: [NextcloudApp]
  private let apps: [NextcloudApp]
  private let standard: NextcloudApp?

  /// The apps that Nextcloud ships, and no others.
  package init() { (own, apps, standard) = ([], Self.builtIn, nil) }

  /// - Parameters:
  ///   - own: the operator's, which are tried before the built-in ones.
  ///   - standard: the name of the app that an unknown one is taken for; nil: unknown apps are refused.
  package init(own: [NextcloudApp], default standard: String? = nil) throws(NextcloudApp.Malformed) {
    let apps = own + Self.builtIn
    (self.own, self.apps) = (own, apps)
    self.standard = standard.flatMap { name in apps.first { $0.name.utf8.elementsEqual(name.utf8) } }
    guard standard == nil || self.standard != nil else {
      let names = apps.map(\.name).joined(separator: ", ")
      throw NextcloudApp.Malformed(description: "names none of these apps: \(names)")
    }
  }

  /// What an app of the operator's is for that calls itself so; nil for any other.
  package func ownKind(of userAgent: String) -> NextcloudApp.Kind? {
    let userAgent = Self.beginning(of: userAgent)
    return own.first { $0.matches(userAgent) }?.kind
  }

  /// The app of a caller; nil if nobody knows it.
  ///
  /// - Parameter userAgents: what it calls itself, the more telling first.
  func app(of userAgents: [String]) -> NextcloudApp? {
    let userAgents = userAgents.map(Self.beginning)
    return apps.first { userAgents.contains(where: $0.matches) } ?? standard
  }

  private static func beginning(of userAgent: String) -> String {
    String(decoding: userAgent.utf8.prefix(maximumUserAgent), as: UTF8.self)
  }

  private static let builtIn = [talkIOS, filesIOS, talkAndroid, filesAndroid]
  private static let talkIOS = builtIn(
    "Talk for iOS", #"\(iOS\) Nextcloud-Talk"#, .talk, .ios, topic: "com.nextcloud.Talk")
  private static let filesIOS = builtIn(
    "Files for iOS", #"\(iOS\) (?:ownCloud|Nextcloud)-iOS"#, .files, .ios, topic: "it.twsweb.Nextcloud")
  private static let talkAndroid = builtIn(
    "Talk for Android", #"\(Android\) Nextcloud-Talk"#, .talk, .android)
  private static let filesAndroid = builtIn(
    "Files for Android", #"\(Android\) (?:ownCloud|Nextcloud)-android"#, .files, .android)

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
