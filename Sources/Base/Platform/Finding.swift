package import Basics

/// The result of one of `doctor`'s checks.
package struct Finding: Sendable, Hashable {
  package enum Standing: Sendable, Hashable, CaseIterable {
    case good
    /// It works, with a drawback that the operator should know.
    case warning
    /// It does not work.
    case fault
    /// It could not be checked.
    case skipped
  }

  /// The name of the check: `database`, `apns:production`.
  package let check: String
  package let standing: Standing
  /// What was found, or why the check was skipped; never a secret.
  package let detail: String
  /// How to fix it; nil if there is nothing to fix.
  package let advice: String?

  /// Whether there is no fault, as far as is known.
  package var isGood: Bool { standing != .fault }

  package static func good(_ check: String, _ detail: String) -> Finding {
    Finding(check: check, standing: .good, detail: detail, advice: nil)
  }

  package static func warning(_ check: String, _ detail: String, advice: String) -> Finding {
    Finding(check: check, standing: .warning, detail: detail, advice: advice)
  }

  package static func bad(_ check: String, _ detail: String, advice: String) -> Finding {
    Finding(check: check, standing: .fault, detail: detail, advice: advice)
  }

  package static func bad(_ check: String, _ fault: Fault) -> Finding {
    .bad(
      check, fault.detail,
      advice: fault.advice ?? "correct it; push-bouncer init writes a file that explains every setting")
  }

  /// - Parameter reason: why the check could not be made.
  package static func skipped(_ check: String, _ reason: String) -> Finding {
    Finding(check: check, standing: .skipped, detail: reason, advice: nil)
  }

  /// The findings if the configuration cannot be read: no other check can be made then.
  package static func unreadable(_ fault: Fault) -> [Finding] {
    [.bad("configuration", fault), .skipped("everything else", "the configuration has to be right first")]
  }
}
