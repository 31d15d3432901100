internal import Platform

// What the code opens and what the entitlements allow have to be one group. A group by itself is judged by its row.

extension Expectation {
  static func isOwn(_ group: Value) -> Bool {
    group.text.hasPrefix("group.") && !Vendor.owns(.group, group.text)
  }

  /// The groups of the other aspect that are one's own, and better those that this one does not have.
  func groups(of other: Aspect, but known: Aspect) -> String {
    let own = app[other].filter(Self.isOwn)
    let free = own.filter { group in !app[known].contains { $0.text == group.text } }
    return any((free.isEmpty ? own : free).map(\.text), or: "a group of your own team, group.NAME")
  }

  /// Judges a group that the code opens. What is wrong with the app's entitlements is said of them.
  func judge(group: Value) -> Judgement {
    guard Self.isOwn(group) else { return .init(.fault, must: "a name that begins with group.") }
    let isAppWrong = app.parts.contains {
      $0.isApp && ($0.groups.isEmpty || !$0.groups.allSatisfy(Self.isOwn))
    }
    guard !isAppWrong, !app[.entitledGroup].contains(where: { $0.text == group.text }),
      let own = app[.entitledGroup].first(where: Self.isOwn)
    else { return .good }
    return .init(.fault, must: "\(groups(of: .entitledGroup, but: .group)), as in \(own.file.text)")
  }
}

extension Comparison {
  mutating func compareGroups() {
    let opened = app[.group].filter(Expectation.isOwn)
    // What the app and its extensions agree on.
    let main = expected.isPackage || app[.group].first == opened.first ? opened.first : nil
    for part in app.parts {
      switch part.entitlements {
      case .unreadable: break
      case .gone(let place):
        add(
          .entitledGroup, .fault, place, remark: "it is not there", "the path of its entitlements file",
          "\(part.name) cannot be built, or is signed without its app group")
      case .none(let other):
        guard let place = other ?? (part.needsEntitlements ? part.bundle : nil) else { break }
        let elsewhere = other.map { ": another configuration has \($0.text)" } ?? ""
        add(
          .entitledGroup, .fault, place.with(""),
          remark: "\(part.name) is published without an entitlements file\(elsewhere)",
          "CODE_SIGN_ENTITLEMENTS in the configuration that is published, naming a file that allows \(main?.text ?? "your app group")",
          Self.effect(on: part))
      case .file(let file, let groups, let isWhole):
        // A vendor's group stands where the right one has to; that has been said. A package does not say which of the groups
        // that its code opens is the one that is shared.
        let shared = expected.isPackage ? opened : Array(opened.prefix(1))
        guard isWhole, let main,
          !groups.contains(where: { group in shared.contains { $0.text == group.text } }),
          groups.allSatisfy(Expectation.isOwn), !isElsewhere(main)
        else { break }
        guard part.needsEntitlements || !groups.isEmpty else { break }
        let there = groups.isEmpty ? "no app group" : "only \(groups.map(\.text).joined(separator: " and "))"
        add(
          .entitledGroup, .fault, Value("", file: file, line: groups.first?.line),
          remark: "it allows \(there)", "\(main.text), as in \(main.file.text)", Self.effect(on: part))
      }
    }
  }

  /// Whether no part allows the group that the code opens: then it is the code's that is wrong.
  private func isElsewhere(_ main: Value) -> Bool {
    let own = app[.entitledGroup].filter(Expectation.isOwn)
    return !own.isEmpty && !own.contains { $0.text == main.text }
  }

  private static func effect(on part: AppFacts.Part) -> String {
    part.isApp
      ? "the app finds no folder to share with its extensions: it stops at its start, or notifications stay without text"
      : part.isNotificationService
        ? "the extension cannot read what the app has stored: its notifications stay without text"
        : "\(part.name) cannot read what the app has stored, and knows neither accounts nor keys"
  }
}
