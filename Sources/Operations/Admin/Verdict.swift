internal import Foundation
internal import Wire

/// What `/readyz` says, as sentences for people.
struct Verdict {
  /// What is wrong with one part.
  struct Problem: Hashable {
    /// The part, as `/readyz` names it.
    let name: String
    /// What is wrong, since when.
    let sentence: String
    /// What to do; nil if that says it.
    let advice: String?
  }

  let status: Readiness.Status
  let problems: [Problem]

  init(_ status: Readiness.Status, _ document: JSON, now: Date) {
    self.status = status
    guard case .object(let checks)? = document["checks"] else {
      problems = []
      return
    }
    problems = checks.members.compactMap { Problem($0.name.text, $0.value, now: now) }
  }

  /// The light as a word, and its colour.
  var word: (text: String, style: String) {
    switch status {
    case .ready: ("Ready", "")
    case .degraded: ("Degraded", "doubtful")
    case .unavailable: ("Unavailable", "bad")
    }
  }
}

extension Verdict.Problem {
  fileprivate init?(_ name: String, _ check: JSON, now: Date) {
    let status = check["status"]?.string ?? ""
    guard !["ok", "unknown"].contains(status) else { return nil }
    let what = check["meaning"]?.string ?? check["reason"]?.string ?? status
    let since = (check["since"]?.string).flatMap { try? Date($0, strategy: .iso8601) }
    let route = check["route"]?.string.map { " (\($0))" } ?? ""
    let reason = check["meaning"] == nil ? "" : check["reason"]?.string.map { " [\($0)]" } ?? ""
    self.init(
      name: name,
      sentence:
        "\(what)\(reason)\(route)\(since.map { ", since \($0.formatted(.iso8601)), \(Phrase.age($0, at: now))" } ?? "")",
      advice: check["advice"]?.string)
  }
}
