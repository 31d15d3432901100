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
    /// `apiKey` or `google_api_key`.
    case firebaseKey = "Firebase API key"
    /// Project, number, app and key that the app for iOS starts the Firebase library with, though its pushes go by APNs.
    case firebaseForIOS = "Firebase for iOS"
    case applicationID = "applicationId"
    /// The SHA-256 of the certificate that a package for Android is signed with.
    case certificate = "signing certificate"
    case bundleID = "bundle id"
    /// The bundle id as it stands in the code once more.
    case bundleIDInCode = "bundle id in the code"
    case team = "team"
    /// The app groups that the code opens.
    case group = "app group"
    /// The app groups that the entitlements allow.
    case entitledGroup = "app group in the entitlements"
    case environment = "aps-environment"
    case backgroundModes = "background modes"
    /// A name of the original app that does not decide about notifications.
    case leftover = "left over"
  }

  /// What is signed as one: an app for iOS, or one of its extensions.
  struct Part: Sendable {
    enum Entitlements: Sendable {
      /// None, or none that this build names. The place is where another configuration names one.
      case none(Value?)
      /// A file that is named and not there.
      case gone(Value)
      case unreadable
      /// - Parameter isWhole: whether all groups could be read.
      case file(Name, groups: [Value], environment: Value?, isWhole: Bool)
    }

    let name: String
    let isApp: Bool
    /// Whether it shows notifications in the app's place.
    var isNotificationService: Bool
    /// Whether it cannot do without the app group, so that it has to have entitlements.
    var needsEntitlements = false
    /// The bundle id of what is published, and those of other configurations.
    var bundle: Value?
    var otherBundles: [Value] = []
    var entitlements = Entitlements.none(nil)
    /// `UIBackgroundModes`; nil if they could not be read.
    var backgroundModes: (file: Name, line: Int?, modes: [Value])?
  }

  let product: Product
  private(set) var values: [Aspect: [Value]] = [:]
  /// What could not be read, and why.
  private(set) var unread: [(aspect: Aspect, reason: String, file: Name?, line: Int?)] = []
  /// What is not there, though it has to be: the first file that should have it, and its name.
  private(set) var lacking: [(aspect: Aspect, name: String, file: Name)] = []
  /// The app for iOS and its extensions.
  private(set) var parts: [Part] = []
  /// A `google-services.json` that no build reads.
  var unusedGoogleServices: Name?
  private let budget: Budget

  init(_ product: Product, _ budget: Budget) { (self.product, self.budget) = (product, budget) }

  subscript(aspect: Aspect) -> [Value] { values[aspect, default: []] }

  mutating func add(_ aspect: Aspect, _ values: [Value]) throws {
    try budget.values(values.count)
    self.values[aspect, default: []] += values
  }

  mutating func add(_ part: Part) throws {
    try budget.values(1 + part.otherBundles.count)
    parts.append(part)
  }

  mutating func miss(_ aspect: Aspect, _ reason: String, file: Name? = nil, line: Int? = nil) throws {
    try budget.values(1)
    unread.append((aspect, reason, file, line))
  }

  mutating func lack(_ aspect: Aspect, _ name: Name, in file: Name) throws {
    try budget.values(1)
    lacking.append((aspect, name.text, file))
  }

  /// Reads what an iOS app's entitlements allow.
  ///
  /// - Parameter resolve: replaces variables.
  mutating func entitlements(
    _ entitlements: PropertyList, file: Name, resolve: (Value) throws -> Value = { $0 }
  ) throws -> Part.Entitlements {
    var (groups, isWhole): ([Value], Bool) = ([], true)
    for group in try entitlements.texts("com.apple.security.application-groups", in: file).map(resolve) {
      if group.text.utf8.contains(UInt8(ascii: "$")) {
        try miss(
          .entitledGroup, "no xcconfig file was found that says what \(group.text) is", file: file,
          line: group.line)
        isWhole = false
      } else {
        groups.append(group)
      }
    }
    try budget.values(groups.count)
    return .file(
      file, groups: groups, environment: try entitlements["aps-environment"]?.value(in: file).map(resolve),
      isWhole: isWhole)
  }

  /// `nextcloud_user_agent` as Files for Android makes it: with its version, and `name_for_branded_user_agent`.
  static func userAgent(_ format: String, brand: String) -> String {
    format.replacing("%1$s", with: "1.0").replacing("%2$s", with: brand)
  }
}
