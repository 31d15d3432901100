extension NextcloudRegistration.AppKind {
  /// By the `User-Agent` of the official apps; rebranded ones are unknown.
  init(userAgent: String) {
    func begins(with agents: String...) -> Bool {
      agents.contains { userAgent.utf8.starts(with: "Mozilla/5.0 (\($0)".utf8) }
    }
    if begins(with: "Android) Nextcloud-Talk v", "iOS) Nextcloud-Talk v") {
      self = .talk
    } else if begins(
      with: "Android) ownCloud-android/", "Android) Nextcloud-android/", "iOS) ownCloud-iOS/",
      "iOS) Nextcloud-iOS/")
    {
      self = .files
    } else {
      self = .unknown
    }
  }
}
