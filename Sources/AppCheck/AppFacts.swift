internal import Foundation

/// What an app has built in for its notifications, as far as it could be read.
struct AppFacts: Sendable {
  enum Product: String, Sendable {
    case zulip = "Zulip"
    case talk = "Nextcloud Talk"
    case files = "Nextcloud Files"
  }

  /// A kind of value, as the operator reads it.
  enum Aspect: String, Sendable, CaseIterable {
    /// The key that the app seals its registrations to, in base64.
    case bouncerKey = "bouncer key"
    case proxy = "push proxy"
    case userAgent = "User-Agent"
    case firebaseProject = "Firebase project"
    /// `messagingSenderId` or `gcm_defaultSenderId`.
    case firebaseNumber = "Firebase number"
    /// `1:<number>:android:...` or `1:<number>:ios:...`
    case firebaseApp = "Firebase app"
    /// Project, number and app that the app for iOS starts the Firebase library with, though its pushes go by APNs.
    case firebaseForIOS = "Firebase for iOS"
    case applicationID = "applicationId"
    /// Of the app and its extensions; the app's is the shortest, since Apple wants it to begin the others.
    case bundleID = "bundle id"
    /// The bundle id as it stands in the code once more.
    case bundleIDInCode = "bundle id in the code"
    case team = "team"
    /// The app groups that the code opens.
    case group = "app group"
    /// The app groups that the entitlements allow.
    case entitledGroup = "app group in the entitlements"
    case environment = "aps-environment"
    /// A name of the original app that does not decide about notifications.
    case leftover = "left over"
  }

  let product: Product
  private(set) var values: [Aspect: [Value]] = [:]
  /// What could not be read, and why.
  private(set) var unread: [(aspect: Aspect, reason: String)] = []

  init(_ product: Product) { self.product = product }

  subscript(aspect: Aspect) -> [Value] { values[aspect, default: []] }

  mutating func add(_ aspect: Aspect, _ values: [Value]) { self.values[aspect, default: []] += values }

  mutating func miss(_ aspect: Aspect, _ reason: String) { unread.append((aspect, reason)) }
}

extension AppFacts {
  /// Adds the values that a pattern finds in the first of the files that is there.
  mutating func look(
    _ aspect: Aspect, _ files: AppFiles, _ names: [String], _ pattern: Regex<(Substring, Substring)>
  ) {
    let found = names.lazy.compactMap { files.text($0)?.values(pattern) }.first ?? []
    add(aspect, found)
    if found.isEmpty { miss(aspect, "not found where it was: \(names.joined(separator: " or "))") }
  }

  /// Adds the values that a pattern finds in all files under a folder whose names end so.
  mutating func search(
    _ aspect: Aspect, _ files: AppFiles, under folder: String, endings: [String],
    _ pattern: Regex<(Substring, Substring)>
  ) {
    let found = files.names
      .filter { name in name.hasPrefix(folder) && endings.contains(where: name.hasSuffix) }
      .flatMap { files.text($0)?.values(pattern) ?? [] }
    add(aspect, found)
    if found.isEmpty {
      miss(aspect, "not found in the files \(endings.map { "*\($0)" }.joined(separator: ", ")) of \(folder)")
    }
  }

  /// Adds what an iOS app's entitlements file allows.
  ///
  /// - Parameter entitlements: the decoded property list.
  mutating func addEntitlements(
    _ entitlements: [String: Any], file: String, line: (String) -> Int?, resolve: (String) -> String
  ) {
    func value(_ text: String) -> Value { Value(text: resolve(text), file: file, line: line(text)) }
    let groups = (entitlements["com.apple.security.application-groups"] as? [String] ?? []).map(value)
    add(.entitledGroup, groups.filter { !$0.text.contains("$") })
    for group in groups where group.text.contains("$") {
      miss(.entitledGroup, "no xcconfig file was found that says what \(group.text) in \(file) is")
    }
    if let environment = entitlements["aps-environment"] as? String {
      add(.environment, [value(environment)])
    }
  }
}
