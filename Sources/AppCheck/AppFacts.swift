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
  private(set) var unread: [(aspect: Aspect, reason: String, file: Name?, line: Int?)] = []
  private let budget: Budget

  init(_ product: Product, _ budget: Budget) { (self.product, self.budget) = (product, budget) }

  subscript(aspect: Aspect) -> [Value] { values[aspect, default: []] }

  mutating func add(_ aspect: Aspect, _ values: [Value]) throws {
    try budget.values(values.count)
    self.values[aspect, default: []] += values
  }

  mutating func miss(_ aspect: Aspect, _ reason: String, file: Name? = nil, line: Int? = nil) throws {
    try budget.values(1)
    unread.append((aspect, reason, file, line))
  }
}

extension AppFacts {
  /// Adds what an iOS app's entitlements allow.
  ///
  /// - Parameter resolve: replaces variables.
  mutating func addEntitlements(
    _ entitlements: PropertyList, file: Name, resolve: (Value) throws -> Value = { $0 }
  ) throws {
    for group in try entitlements.texts("com.apple.security.application-groups", in: file).map(resolve) {
      if group.text.utf8.contains(UInt8(ascii: "$")) {
        try miss(
          .entitledGroup, "no xcconfig file was found that says what \(group.text) is", file: file,
          line: group.line)
      } else {
        try add(.entitledGroup, [group])
      }
    }
    if let environment = entitlements["aps-environment"]?.value(in: file) {
      try add(.environment, [resolve(environment)])
    }
  }
}
