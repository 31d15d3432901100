/// One thing that `doctor` has looked at.
package struct Finding: Sendable, Hashable {
  /// How it is.
  package enum Standing: Sendable, Hashable {
    /// As it should be.
    case good
    /// It works, and an operator had better know what it lacks.
    case warning
    /// Not as it should be.
    case fault
    /// Not known: there was no way to look.
    case skipped
  }

  /// What was looked at: `database`, `apns:production`.
  package let check: String
  /// How it is.
  package let standing: Standing
  /// What was found, or why nothing was; never a secret.
  package let detail: String
  /// What to do about it; nil if nothing.
  package let advice: String?

  /// Whether there is nothing to mend, as far as is known.
  package var isGood: Bool { standing != .fault }

  static func good(_ check: String, _ detail: String) -> Finding {
    Finding(check: check, standing: .good, detail: detail, advice: nil)
  }

  static func warning(_ check: String, _ detail: String, advice: String) -> Finding {
    Finding(check: check, standing: .warning, detail: detail, advice: advice)
  }

  static func bad(_ check: String, _ detail: String, advice: String) -> Finding {
    Finding(check: check, standing: .fault, detail: detail, advice: advice)
  }

  static func bad(_ check: String, _ fault: Fault) -> Finding {
    .bad(
      check, fault.detail,
      advice: fault.advice ?? "correct it; push-bouncer init writes a file that explains every setting")
  }

  /// - Parameter reason: why nobody could look.
  static func skipped(_ check: String, _ reason: String) -> Finding {
    Finding(check: check, standing: .skipped, detail: reason, advice: nil)
  }

  /// The configuration cannot be read, so that nothing else can be looked at.
  package static func unreadable(_ fault: Fault) -> [Finding] {
    [.bad("configuration", fault), .skipped("everything else", "the configuration has to be right first")]
  }
}
