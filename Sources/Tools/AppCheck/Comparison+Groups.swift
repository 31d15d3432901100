internal import Platform

extension Comparison {
  private static func isOwn(_ group: Value) -> Bool {
    group.text.hasPrefix("group.") && !Vendor.owns(.group, group.text)
  }

  /// Compares the app groups that the code opens with those that the entitlements of app and extensions allow.
  mutating func compareGroups() {
    let opened = app[.group]
    let entitled = app.parts.flatMap(\.groups)
    // What the app and its extensions agree on.
    let main =
      expected.isPackage
      ? opened.first(where: Self.isOwn) : opened.first.flatMap { Self.isOwn($0) ? $0 : nil }
    let share =
      app.product == .zulip
      ? "the app finds no folder to share with its extension, and stops at its start"
      : "app and extension share nothing: the extension has no key, and shows no text of a notification"
    for group in opened
    where compare(group, .group, other(entitled, but: opened), "your team has no such group: \(share)") {
      if !isAppWrong, !entitled.contains(where: { $0.text == group.text }),
        let own = entitled.first(where: Self.isOwn)
      {
        add(.group, .fault, group, "\(other(entitled, but: opened)), as in \(own.file.text)", share)
      } else {
        add(.group, .good, group)
      }
    }
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
        for group in groups
        where compare(
          group, .entitledGroup, other(opened, but: entitled), "Xcode cannot sign the app with it")
        { add(.entitledGroup, .good, group) }
        // A vendor's group stands where the right one has to; that has been said. A package does not say which of the groups
        // that its code opens is the one that is shared.
        let shared = expected.isPackage ? opened.filter(Self.isOwn) : main.map { [$0] } ?? []
        guard isWhole, let main,
          !groups.contains(where: { group in shared.contains { $0.text == group.text } }),
          groups.allSatisfy(Self.isOwn), !isElsewhere(main, entitled)
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
  private func isElsewhere(_ main: Value, _ entitled: [Value]) -> Bool {
    let own = entitled.filter(Self.isOwn)
    return !own.isEmpty && !own.contains { $0.text == main.text }
  }

  private static func effect(on part: AppFacts.Part) -> String {
    part.isApp
      ? "the app finds no folder to share with its extensions: it stops at its start, or notifications stay without text"
      : part.isNotificationService
        ? "the extension cannot read what the app has stored: its notifications stay without text"
        : "\(part.name) cannot read what the app has stored, and knows neither accounts nor keys"
  }

  /// Whether the app's entitlements are not those that they have to be, which is said of them.
  private var isAppWrong: Bool {
    app.parts.contains { $0.isApp && ($0.groups.isEmpty || !$0.groups.allSatisfy(Self.isOwn)) }
  }

  /// The groups that the other side has and that are one's own.
  private func other(_ groups: [Value], but known: [Value]) -> String {
    let free = groups.filter { group in Self.isOwn(group) && !known.contains { $0.text == group.text } }
    return expected.any(
      (free.isEmpty ? groups.filter(Self.isOwn) : free).map(\.text),
      or: "a group of your own team, group.NAME")
  }

  /// Says what is wrong with a group by itself; false if something is.
  private mutating func compare(_ group: Value, _ aspect: Aspect, _ must: String, _ effect: String) -> Bool {
    guard !Self.isOwn(group) else { return true }
    let isVendors = Vendor.owns(.group, group.text)
    add(
      aspect, .fault, group,
      remark: isVendors ? "the vendor's own" : group.text.isEmpty ? "it is empty" : nil,
      isVendors || aspect == .entitledGroup ? must : "a name that begins with group.", effect)
    return false
  }
}
