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
    return tables.joined(separator: "\n") + "\n" + toldToServers
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

  /// What a chat server's admin is advised to do, where that is not what the operator is.
  private static var toldToServers: String {
    let rows = Reason.tables.flatMap(\.rows).filter { !isOfSignIn($0.reason) }
    let others = rows.filter {
      $0.explanation.told(to: .chatServer).advice != $0.explanation.told(to: .operator).advice
    }
    var reasons: [String: [String]] = [:]
    for row in others {
      reasons[row.explanation.told(to: .chatServer).advice, default: []].append("`\(row.reason)`")
    }
    let lines = reasons.sorted { ($1.value.count, $0.key) < ($0.value.count, $1.key) }.map {
      "| \(plain($0.key)) | \($0.value.joined(separator: ", ")) |\n"
    }
    return """
      ## What the admin of a chat server is told

      `push/status` says the same of a reason to the admin of a chat server, with advice that names no file, setting or command of
      the bouncer:

      | what to do | reasons |
      |---|---|

      """ + lines.joined()
  }

  /// Text in which Markdown finds no markup.
  private static func plain(_ text: String) -> String {
    text.replacing(/[\\*<>|`\[\]]/) { "\\\($0.output)" }
  }
}
