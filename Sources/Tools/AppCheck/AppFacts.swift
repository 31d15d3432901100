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
      case file(Name, groups: [Value], isWhole: Bool)
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
    var groups: [Value] { if case .file(_, let groups, _) = entitlements { groups } else { [] } }
  }

  let table: AppTable
  /// The rows that count in this app: a flavour may do without Google.
  var rows: [Row]
  private(set) var values: [Aspect: [Value]] = [:]
  /// What is not there, though it has to be: the first file that should have it, and what it is called.
  private(set) var lacking: [(aspect: Aspect, name: Name, place: Value)] = []
  /// The app for iOS and its extensions, and where they are listed.
  private(set) var parts: [Part] = []
  var project: Name?
  /// A `google-services.json` that no build reads.
  var unusedGoogleServices: Name?
  /// What of the source is built.
  var (flavor, configuration): (Name?, Name?) = (nil, nil)
  let files: AppFiles

  init(_ table: AppTable, _ files: AppFiles) {
    (self.table, rows, self.files) = (table, table.rows, files)
  }

  var product: AppTable.Product { table.product }

  subscript(aspect: Aspect) -> [Value] { values[aspect, default: []] }

  mutating func add(_ aspect: Aspect, _ values: [Value]) throws {
    try files.budget.values(values.count)
    self.values[aspect, default: []] += values
  }

  mutating func add(_ part: Part) throws {
    try files.budget.values(1 + part.otherBundles.count + part.groups.count)
    parts.append(part)
  }

  /// Adds the texts of one name among Android's resources, those for all languages and devices first; nil is one that
  /// could not be read.
  ///
  /// - Parameters:
  ///   - brand: `name_for_branded_user_agent`, which Files puts into its User-Agent, behind its version.
  ///   - place: where they should be.
  mutating func add(_ aspect: Aspect, _ name: Name, _ texts: [Value?], brand: String, in place: Name) throws {
    try add(
      aspect,
      texts.compactMap(\.self).map { text in
        let made = text.text.replacing("%1$s", with: "1.0").replacing("%2$s", with: brand)
        var value = aspect == .userAgent ? text.with(Name(made)) : text
        value.member = name.text
        return value
      })
    if texts.isEmpty { try lack(aspect, name, Value("", file: place)) }
  }

  mutating func lack(_ aspect: Aspect, _ name: Name, _ place: Value) throws {
    try files.budget.values(1)
    lacking.append((aspect, name, place))
  }

  /// Reads what the entitlements of an app for iOS, or of an extension, allow.
  ///
  /// - Parameter resolve: replaces variables.
  mutating func entitlements(
    _ entitlements: PropertyList, file: Name, isApp: Bool, resolve: (Value) throws -> Value
  ) throws -> Part.Entitlements {
    let groups = try entitlements.texts("com.apple.security.application-groups", in: file).map(resolve)
    let known = groups.filter { !$0.isOpen }
    for group in groups where group.isOpen {
      try files.miss(.entitledGroup, "no xcconfig file was found that says what \(group.text) is", group)
    }
    try add(.entitledGroup, known)
    if isApp {
      switch try entitlements["aps-environment"]?.value(in: file).map(resolve) {
      case let open? where open.isOpen: try files.miss(.environment, "\(open.text) is not defined", open)
      case let value?: try add(.environment, [value])
      case nil: try lack(.environment, "aps-environment", Value("", file: file))
      }
    }
    return .file(file, groups: known, isWhole: known.count == groups.count)
  }
}
