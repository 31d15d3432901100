/// One thing that `doctor` has looked at.
public struct Finding: Sendable, Hashable {
  /// What was looked at: `database`, `apns:production`.
  public let check: String
  /// Whether it is as it should be.
  public let isGood: Bool
  /// What was found; never a secret.
  public let detail: String
  /// What to do about it; nil if nothing.
  public let advice: String?

  /// All is well.
  static func good(_ check: String, _ detail: String) -> Finding {
    Finding(check: check, isGood: true, detail: detail, advice: nil)
  }

  /// Something is not.
  static func bad(_ check: String, _ detail: String, advice: String) -> Finding {
    Finding(check: check, isGood: false, detail: detail, advice: advice)
  }
}
