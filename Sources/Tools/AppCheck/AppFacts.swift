internal import NextcloudProxy

/// What an app has built in for its notifications, as far as it could be read.
struct AppFacts: Sendable {
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
    /// `NSExtensionPointIdentifier`; nil if there is none.
    var point: Value?
    /// Whether the app contains it.
    var isEmbedded = true
    /// Whether it cannot do without the app group, so that it has to have entitlements.
    var needsEntitlements = false
    /// The bundle id of what is published, and those of other configurations.
    var bundle: Value?
    var otherBundles: [Value] = []
    var entitlements = Entitlements.none(nil)
    /// `UIBackgroundModes`; nil if they could not be read.
    var backgroundModes: (place: Value, modes: [Value])?

    static let service = "com.apple.usernotifications.service"
    /// Whether it shows notifications in the app's place.
    var isNotificationService: Bool { point?.text == Self.service }
    /// Whether it is to, by its name.
    var isCalledNotificationService: Bool {
      !isApp && name.lowercased().filter { $0.isLetter }.contains("notificationservice")
    }
    var groups: [Value] { if case .file(_, let groups, _, _) = entitlements { groups } else { [] } }
  }

  let table: AppTable
  /// The rows that count in this app: a package is for one platform, and a flavour may do without Google.
  var rows: [Row]
  private(set) var values: [Aspect: [Value]] = [:]
  /// What could not be read, and why.
  private(set) var unread: [(aspect: Aspect, reason: String, file: Name?, line: Int?)] = []
  /// What is not there, though it has to be: the first file that should have it, and its name.
  private(set) var lacking: [(row: Row, name: Name, file: Name)] = []
  /// The app for iOS and its extensions, and where they are listed.
  private(set) var parts: [Part] = []
  var project: Name?
  /// A `google-services.json` that no build reads.
  var unusedGoogleServices: Name?
  /// What is wrong with the `google-services.json` that the build reads, and where.
  var wrongServices: (remark: String, places: [Value])?
  /// What of the source is built.
  var (flavor, configuration): (Name?, Name?) = (nil, nil)
  let budget: Budget

  init(_ table: AppTable, for platform: NextcloudApp.Platform? = nil, _ budget: Budget) {
    self.table = table
    self.budget = budget
    rows = table.rows.filter { platform == nil || $0.platform == nil || $0.platform == platform }
  }

  var product: AppTable.Product { table.product }

  subscript(aspect: Aspect) -> [Value] { values[aspect, default: []] }

  mutating func add(_ aspect: Aspect, _ values: [Value]) throws {
    try budget.values(values.count)
    self.values[aspect, default: []] += values
  }

  mutating func add(_ part: Part) throws {
    try budget.values(1 + part.otherBundles.count + part.groups.count)
    parts.append(part)
  }

  mutating func miss(_ aspect: Aspect, _ reason: String, file: Name? = nil, line: Int? = nil) throws {
    try budget.values(1)
    unread.append((aspect, reason, file, line))
  }

  mutating func lack(_ row: Row, _ name: Name, in file: Name) throws {
    try budget.values(1)
    lacking.append((row, name, file))
  }

  /// Adds what was not read of the files that were looked at.
  mutating func missNotes(_ files: AppFiles) throws {
    for note in files.notes { try miss(.file, note.reason, file: note.file, line: note.line) }
  }

  /// Whether there is nothing of an aspect, nor a word why.
  func isSilent(_ aspect: Aspect) -> Bool {
    self[aspect].isEmpty && !unread.contains { $0.aspect == aspect }
      && !lacking.contains { $0.row.aspect == aspect }
  }

  /// Reads what an iOS app's entitlements allow.
  ///
  /// - Parameter resolve: replaces variables.
  mutating func entitlements(
    _ entitlements: PropertyList, file: Name, resolve: (Value) throws -> Value = { $0 }
  ) throws -> Part.Entitlements {
    var (groups, isWhole): ([Value], Bool) = ([], true)
    for group in try entitlements.texts("com.apple.security.application-groups", in: file).map(resolve) {
      if group.isOpen {
        try miss(
          .entitledGroup, "no xcconfig file was found that says what \(group.text) is", file: file,
          line: group.line)
        isWhole = false
      } else {
        groups.append(group)
      }
    }
    var environment = try entitlements["aps-environment"]?.value(in: file).map(resolve)
    if let open = environment, open.isOpen {
      try miss(.environment, "\(open.text) is not defined", file: file, line: open.line)
      environment = nil
    }
    return .file(file, groups: groups, environment: environment, isWhole: isWhole)
  }

  /// `nextcloud_user_agent` as Files for Android makes it: with its version, and `name_for_branded_user_agent`.
  static func userAgent(_ format: String, brand: String) -> String {
    format.replacing("%1$s", with: "1.0").replacing("%2$s", with: brand)
  }
}
