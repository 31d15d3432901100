internal import Delivery
internal import Foundation
internal import HTTP
internal import Providers

/// Notifications that no credential serves.
extension Health {
  static let unservedName = "unserved"
  /// How many apps and projects are listed.
  static let mostUnserved = 10

  /// The check of what no credential serves; nil if there is nothing of that. What anybody may register, or what the
  /// operator has switched off, is said and does not degrade the service.
  static func check(_ unserved: [UnservedReport]) -> Check? {
    guard let first = unserved.first(where: \.isFault) ?? unserved.first else { return nil }
    var check = Check(name: unservedName)
    if first.isFault {
      check.status = .degraded
      check.state = "failing"
      check.reason = "\(Reason.unconfigured)"
    }
    check.meaning = "\(first.sentence)."
    check.advice = first.advice
    check.details["targets"] = .array(unserved.prefix(mostUnserved).map(\.json))
    if unserved.count > mostUnserved {
      check.details["more_targets"] = .integer(Int64(unserved.count - mostUnserved))
    }
    return check
  }

  var unservedProblems: [Problem] {
    var problems = unserved.prefix(Self.mostUnserved).map {
      Problem(parts: ["\($0.target)"], sentence: "\($0.sentence).", advice: $0.advice)
    }
    if unserved.count > problems.count {
      problems.append(
        Problem(
          parts: ["\(unserved.count - problems.count) more"], sentence: "No credential serves them either.",
          advice: nil))
    }
    return problems
  }
}

extension UnservedReport {
  fileprivate var json: JSON {
    [
      "provider": .string(target.provider.rawValue), "target": .optional(target.target),
      "environment": .optional(target.environment?.rawValue),
      "open_to_anybody": .bool(target.isUntrusted), "last_hour": .integer(Int64(came)),
      "waiting": .integer(Int64(waiting)), "meaning": .string("\(sentence)."), "advice": .string(advice),
    ]
  }
}
