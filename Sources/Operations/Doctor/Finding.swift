/// One thing that `doctor` has looked at.
package struct Finding: Sendable, Hashable {
  /// What was looked at: `database`, `apns:production`.
  package let check: String
  /// Whether it is as it should be.
  package let isGood: Bool
  /// What was found; never a secret.
  package let detail: String
  /// What to do about it; nil if nothing.
  package let advice: String?

  /// All is well.
  static func good(_ check: String, _ detail: String) -> Finding {
    Finding(check: check, isGood: true, detail: detail, advice: nil)
  }

  /// Something is not.
  static func bad(_ check: String, _ detail: String, advice: String) -> Finding {
    Finding(check: check, isGood: false, detail: detail, advice: advice)
  }
}
