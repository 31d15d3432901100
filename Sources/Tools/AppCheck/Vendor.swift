import Foundation

/// `1:NUMBER:android:HASH`, as Firebase names an app.
struct FirebaseApp {
  let number, platform, hash: String

  init?(_ text: String) {
    guard let match = text.wholeMatch(of: /1:([0-9]+):([^:]*):([0-9A-Fa-f]{8,})/) else { return nil }
    (number, platform, hash) = (String(match.1), String(match.2), String(match.3))
  }

  /// What stands at the number's place, in whatever form.
  static func number(of text: String) -> String? {
    let parts = text.split(separator: ":", omittingEmptySubsequences: false)
    return parts.count == 4 ? String(parts[1]) : nil
  }

  static func isNumber(_ text: String) -> Bool { text.utf8.allSatisfy(\.isDigit) }

  /// The form that the Firebase library demands of an API key when it asks for a token.
  static func isKey(_ text: String) -> Bool { text.wholeMatch(of: /A[0-9A-Za-z_-]{38}/) != nil }
}

/// Values of the vendors' own apps: where one of them is still there, the app is not rebuilt.
enum Vendor {
  static let bouncerKey = "mm4F/3WLqECY637NulC5j/ZeHkmpwmtlfIxwt8MfREM="
  static let proxy = "https://push-notifications.nextcloud.com"
  static let projects: Set = ["zulip-android", "nextcloud-a7dea"]
  private static let numbers: Set = ["835904834568", "829118773643"]
  /// What Firebase has named their apps, at the end of an app id.
  private static let firebaseApps: Set = [
    "6ae61ae43a7c3410", "9cad34899ca57ba6", "54b65087c544d819", "512449826e931d0e",
  ]
  /// How their keys for Google's interfaces begin. These are public: they are in each copy of the apps.
  private static let apiKeys = ["AIzaSyC6kw5sqCYjxQl2", "AIzaSyAWIyOcLafaFp8P"]
  private static let teams: Set = ["66KHCWMEYB", "NKUJUXUJ3B"]
  static let groups: Set = [
    "group.com.zulip.app", "group.com.nextcloud.Talk", "group.com.nextcloud.apps",
    "group.it.twsweb.Crypto-Cloud",
  ]
  /// Names that stand in settings alone; those of Files for Android are packages of its code as well.
  static let bundles = [
    "org.zulip.Zulip", "com.zulipmobile", "com.nextcloud.talk2", "com.nextcloud.Talk", "it.twsweb.Nextcloud",
  ]
  private static let names = bundles + ["com.nextcloud.client", "com.nextcloud.android"]

  /// The vendor's name that a bundle id or package name is, or begins with.
  static func name(of id: String) -> String? { names.first { id == $0 || id.hasPrefix("\($0).") } }

  static func owns(_ aspect: Aspect, _ text: String) -> Bool {
    switch aspect {
    case .bouncerKey: text == bouncerKey
    case .proxy: plain(text) == proxy || plain(text).hasPrefix("\(proxy)/")
    case .firebaseProject: projects.contains(text)
    case .firebaseNumber: numbers.contains(text)
    case .firebaseApp:
      FirebaseApp(text).map { numbers.contains($0.number) || firebaseApps.contains($0.hash) } ?? false
    case .firebaseKey: apiKeys.contains(where: text.hasPrefix)
    case .firebaseForIOS:
      [.firebaseProject, .firebaseNumber, .firebaseApp, .firebaseKey].contains { owns($0, text) }
    case .applicationID, .bundleID, .bundleIDInCode: name(of: text) != nil
    case .team: teams.contains(text)
    case .group, .entitledGroup: groups.contains(text)
    default: false
    }
  }

  /// Whether an app id is the vendor's not by its number alone.
  static func isApp(_ id: String) -> Bool { firebaseApps.contains { id.hasSuffix(":\($0)") } }

  /// An address as servers compare it: scheme and host in small letters, without the port that https has anyway.
  static func plain(_ address: String) -> String {
    guard var url = URLComponents(string: address) else { return address }
    (url.scheme, url.host) = (url.scheme?.lowercased(), url.host?.lowercased())
    if url.port == (url.scheme == "https" ? 443 : 80) { url.port = nil }
    return url.string ?? address
  }
}
