internal import NextcloudProxy
internal import Platform

/// A value that an app must have: where it stands in a source and in a package, what it must be, and what happens on a
/// phone otherwise.
struct Row: Sendable {
  enum Place: Sendable {
    /// A constant of this name, or a member of what a constant is made of (`options.appId`), in a file of this name
    /// wherever it lies.
    case constant(Name, in: Name)
    /// A text of the code that begins so.
    case text(Name)
    /// A text among Android's resources, of a source as of a package.
    case resource(Name)
    /// A text of the compiled code, by the form that this aspect has.
    case code
    /// What a build makes or is signed with: it is read beside the rows.
    case build

    var resource: Name? { if case .resource(let name) = self { name } else { nil } }
    var isCode: Bool { if case .code = self { true } else { false } }
  }

  let aspect: Aspect
  let platform: NextcloudApp.Platform?
  let source: Place
  /// nil if a package does not have it.
  let package: Place?
  /// Whether something is wrong where no file has it.
  let isNeeded: Bool
  let must: @Sendable (Expectation) -> String
  /// What happens where it is not there, where it is the vendor's, and where it is any other.
  let effects: (missing: String, vendors: String, other: String)
  /// Judges a value that is neither empty nor the vendor's.
  let judge: @Sendable (Value, Expectation) -> Judgement

  init(
    _ aspect: Aspect, _ platform: NextcloudApp.Platform?, _ source: Place, _ package: Place? = nil,
    isNeeded: Bool = true, must: @escaping @Sendable (Expectation) -> String,
    effects: (missing: String, vendors: String, other: String),
    judge: @escaping @Sendable (Value, Expectation) -> Judgement
  ) {
    (self.aspect, self.platform, self.source) = (aspect, platform, source)
    self.package = source.resource == nil ? package : source
    (self.isNeeded, self.must, self.effects, self.judge) = (isNeeded, must, effects, judge)
  }
}

struct Judgement: Sendable {
  let standing: Finding.Standing
  let remark: String?
  /// In the place of the row's own.
  let must: String?
  let effect: String?

  init(_ standing: Finding.Standing, _ remark: String? = nil, must: String? = nil, effect: String? = nil) {
    (self.standing, self.remark, self.must, self.effect) = (standing, remark, must, effect)
  }

  static let (good, fault) = (Judgement(.good), Judgement(.fault))
}
