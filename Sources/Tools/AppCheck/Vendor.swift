/// Values of the vendors' own apps: where one of them is still there, the app is not rebuilt.
enum Vendor {
  static let bouncerKey = "mm4F/3WLqECY637NulC5j/ZeHkmpwmtlfIxwt8MfREM="
  static let proxy = "https://push-notifications.nextcloud.com"
  static let firebase: Set = ["zulip-android", "835904834568", "nextcloud-a7dea", "829118773643"]
  /// What Firebase has named their apps, at the end of an app id.
  static let firebaseApps: Set = [
    "6ae61ae43a7c3410", "9cad34899ca57ba6", "54b65087c544d819", "512449826e931d0e",
  ]
  /// How their keys for Google's interfaces begin. These are public: they are in each copy of the apps.
  private static let apiKeys = ["AIzaSyC6kw5sqCYjxQl2", "AIzaSyAWIyOcLafaFp8P"]
  static let teams: Set = ["66KHCWMEYB", "NKUJUXUJ3B"]
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
  static func owns(_ id: String) -> Bool { name(of: id) != nil }
  static func owns(apiKey: String) -> Bool { apiKeys.contains(where: apiKey.hasPrefix) }
}
