package import Delivery
import Foundation
package import HTTP
import Providers

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
    check.details["targets"] = UnservedReport.members.list(Array(unserved.prefix(mostUnserved)))
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
  package static var members: [JSONMember<UnservedReport>] {
    [
      .member("provider", .oneOf(Route.Provider.self)) { .string($0.target.provider.rawValue) },
      .member(
        "target",
        "bundle id or project; null for the default project, for Web Push, for the upstream bouncer, and for further apps that are counted together"
      ) { $0.target.target },
      .member("environment", "Apple's environment whose key is missing, if only the other one's is there") {
        $0.target.environment
      },
      .member(
        "open_to_anybody",
        "whether its devices are such as anybody may register; it then does not make the service `degraded`"
      ) { $0.target.isUntrusted },
      .member("last_hour", "notifications that came in the last hour, with those of them that wait") {
        $0.came
      },
      .member("waiting", "notifications that wait for a credential") { $0.waiting },
      .member("meaning", "what came and what is missing, in a sentence") { "\($0.sentence)." },
      .member("advice", "what to do") { $0.advice },
    ]
  }
}
