import Foundation
import HTTPClient
import Providers

/// The reasons, as `Documentation/Reasons.md` lists them.
enum ReasonTable {
  static var text: String {
    let tables = Reason.tables.map { heading, rows in
      "## \(heading)\n\n| reason | outcome | what it means | what to do |\n|---|---|---|---|\n"
        + rows.filter { !isOfSignIn($0.reason) }.map(line).joined()
    }
    return tables.joined(separator: "\n")
  }

  private static func line(_ row: Reason.Row) -> String {
    let explanation = row.explanation
    return
      "| `\(row.reason)` | \(word(row.statement)) | \(plain(explanation.meaning)) | \(plain(explanation.advice)) |\n"
  }

  /// Reasons that mean of Google's sign-in what others mean of the provider.
  private static func isOfSignIn(_ reason: Reason) -> Bool {
    ConnectionFailure.allCases.contains { $0.signInReason == reason && $0.reason != reason }
  }

  private static func word(_ statement: Reason.Statement?) -> String {
    switch statement {
    case nil: ""
    case .dead: "dead"
    case .suspect: "suspect"
    case .rejected: "rejected"
    case .misconfigured: "misconfigured"
    case .retry: "retry"
    }
  }

  /// Text in which Markdown finds no markup.
  private static func plain(_ text: String) -> String {
    text.replacing(/[\\*<>|`\[\]]/) { "\\\($0.output)" }
  }
}
