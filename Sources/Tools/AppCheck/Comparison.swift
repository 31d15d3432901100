import Platform

/// One app beside one service: what its table says of each value, and what its parts have to agree on.
struct Comparison {
  let expected: Expectation
  var app: AppFacts { expected.app }
  var service: AppCheck.Service { expected.service }
  var found: [AppCheck.Finding] = []

  mutating func findings() -> [AppCheck.Finding] {
    for unread in app.files.unread { add(unread.aspect, .skipped, unread.place, remark: unread.reason) }
    var seen: Set<Aspect> = []
    for row in app.rows where seen.insert(row.aspect).inserted { compare(row.aspect) }
    for (aspect, name, place) in app.lacking {
      add(
        aspect, .fault, place, remark: "there is no \(name.text)", aspect.must(expected),
        aspect.missing ?? aspect.effect)
    }
    compareBundles()
    compareNotificationService()
    compareGroups()
    compareBackgroundModes()
    for aspect in Aspect.general { compare(aspect) }
    return found
  }

  private mutating func compare(_ aspect: Aspect) {
    // Of texts that begin alike the first is the one that is sent.
    let values = aspect == .userAgent ? Array(app[aspect].prefix(1)) : app[aspect]
    // Whoever has changed a file that no build reads believes that all is done.
    let note = aspect.isFirebase ? app.unusedGoogleServices.map { " (no build reads \($0.text))" } ?? "" : ""
    for value in values {
      // That a number is the vendor's, or none, is said where it stands.
      if aspect.isFirebase, let number = FirebaseApp.number(of: value.text),
        !expected.numbers.contains(number), !Vendor.isApp(value.text),
        app[.firebaseNumber].contains(where: { $0.text == number })
      {
        continue
      }
      // A name of the vendor's that is a fault is not left over besides.
      if aspect == .leftover, !faults(at: Self.place(of: value)).isEmpty { continue }
      let judgement: Judgement =
        Vendor.owns(aspect, value.text)
        ? .init(
          aspect == .firebaseForIOS ? .warning : .fault, "the vendor's own",
          effect: aspect.vendors ?? aspect.effect)
        : value.text.isEmpty
          ? .init(.fault, "it is empty", effect: aspect.missing ?? aspect.effect)
          : aspect.judge(value, expected)
      let isWrong = [.warning, .fault].contains(judgement.standing)
      add(
        aspect, judgement.standing, value, remark: judgement.remark,
        isWrong ? judgement.must ?? aspect.must(expected) : nil,
        isWrong ? (judgement.effect ?? aspect.effect) + note : nil)
    }
  }

  static func place(of value: Value) -> AppCheck.Place {
    AppCheck.Place(
      file: value.file.bytes.isEmpty ? nil : value.file.text, line: value.line, member: value.member,
      target: value.target)
  }

  private func faults(at place: AppCheck.Place) -> [AppCheck.Finding] {
    found.filter {
      $0.standing == .fault && $0.places.contains { $0.file == place.file && $0.line == place.line }
    }
  }

  /// Adds what was found, or its place to what has been found alike.
  mutating func add(
    _ aspect: Aspect, _ standing: Finding.Standing, _ value: Value, remark: String? = nil,
    _ must: String? = nil, _ effect: String? = nil
  ) {
    let place = Self.place(of: value)
    let finding = AppCheck.Finding(
      check: aspect.name, standing: standing, value: value.text.isEmpty ? nil : value.text,
      remark: remark, places: place.file == nil ? [] : [place], expected: must, effect: effect)
    let same = found.firstIndex {
      var other = $0
      other.places = finding.places
      return other == finding
    }
    if let index = same {
      found[index].places += finding.places.filter { !found[index].places.contains($0) }
      return
    }
    // One line that several things are taken from is one cause.
    let isSaid =
      standing != .good && standing != .skipped && place.line != nil
      && faults(at: place).contains { $0.value == finding.value }
    if !isSaid { found.append(finding) }
  }

  // MARK: What the app for iOS and its extensions have to agree on

  mutating func compareBundles() {
    let ids = app.parts.flatMap { [$0.bundle].compactMap(\.self) + $0.otherBundles }
    addVendors(ids.filter { Vendor.owns(.bundleID, $0.text) })
    let measure = expected.measure
    for part in app.parts {
      guard let id = part.bundle, !Vendor.owns(.bundleID, id.text) else { continue }
      if part.isApp {
        compareAppBundle(id)
      } else if let measure,
        ![measure, expected.appBundle?.text ?? measure].contains(where: { id.text.hasPrefix("\($0).") })
      {
        add(
          .bundleID, .fault, id, "\(measure).NAME, since the app is \(measure)",
          "Apple installs no app with an extension of a foreign name")
      } else {
        add(.bundleID, .good, id)
      }
    }
  }

  /// The vendor's name stands in many places, and is one mistake.
  private mutating func addVendors(_ ids: [Value]) {
    let bundles = expected.measure.map { [$0] } ?? expected.topics
    for id in ids {
      let name = Vendor.name(of: id.text) ?? ""
      let isAlone = ids.allSatisfy { $0.text == id.text || Vendor.name(of: $0.text) != name }
      let must = expected.any(
        bundles.map { isAlone ? $0 + id.text.dropFirst(name.utf8.count) : $0 }, or: "a bundle id of your own")
      add(
        .bundleID, .fault, isAlone ? id : id.with(Name(name)), remark: "the vendor's own",
        must + (isAlone ? "" : ", also before the names of extensions"),
        "only the vendor can sign an app of this name; Apple refuses pushes to it with a key of yours")
    }
  }

  private mutating func compareAppBundle(_ id: Value) {
    let keys = service.apple.filter { $0.topics.contains(id.text) }.map(\.name).sorted()
    if service.apple.isEmpty {
      add(
        .bundleID, .warning, id, "a topic of a key in Keys/apns, where there is none",
        "nothing is sent to iOS by way of Apple")
    } else if keys.isEmpty {
      add(
        .bundleID, .fault, id,
        "\(expected.any(expected.topics, or: "a bundle id")), as in the topics of the keys in Keys/apns",
        "this service has no key for the topic \(id.text): nothing arrives on iOS")
    } else {
      add(.bundleID, .good, id, remark: "the topic of \(keys.joined(separator: ", "))")
    }
  }

  mutating func compareNotificationService() {
    guard let app = app.parts.first(where: \.isApp),
      !self.app.files.unread.contains(where: { $0.aspect == .notificationService })
    else { return }
    let services = self.app.parts.filter(\.isNotificationService)
    let list = Value("", file: self.app.project ?? "")
    let (place, remark, must): (Value, String?, String)
    if let service = services.first {
      guard !services.contains(where: \.isEmbedded) else { return }
      place = service.bundle?.with("") ?? list
      remark = "\(service.name) is not embedded in \(app.name)"
      must = "\(service.name) among \"Embed Foundation Extensions\" of \(app.name)"
    } else if let wrong = self.app.parts.first(where: \.isCalledNotificationService) {
      place = wrong.point ?? wrong.bundle.map { Value("", file: $0.file) } ?? list
      remark = wrong.point == nil ? "\(wrong.name) has no NSExtensionPointIdentifier" : nil
      must = "NSExtensionPointIdentifier with \(AppFacts.Part.service)"
    } else {
      // Versions of Zulip's app without encryption have none.
      guard self.app.product != .zulip || !self.app[.bouncerKey].isEmpty else { return }
      (place, remark) = (list, "there is none")
      must = "an extension of the app for \(AppFacts.Part.service)"
    }
    add(
      .notificationService, .fault, place, remark: remark, must,
      "what arrives is encrypted, and nothing decrypts it: a notification shows no text, or not at all")
  }

  mutating func compareBackgroundModes() {
    for case let (place, modes)? in app.parts.map(\.backgroundModes) {
      let there = modes.isEmpty ? "there are none" : modes.map(\.text).joined(separator: ", ")
      func has(_ mode: String) -> Bool { modes.contains { $0.text == mode } }
      if app.product == .talk, !has("voip") {
        add(
          .backgroundModes, .fault, place, remark: there, "voip among the UIBackgroundModes",
          "iOS gives the app no token for calls, and Talk registers none without it: no call rings, and nothing arrives"
        )
      } else if app.product != .files, !has("remote-notification") {
        add(
          .backgroundModes, .warning, place, remark: there, "remote-notification among the UIBackgroundModes",
          "notifications arrive, but those that were read elsewhere stay on the phone")
      } else if !modes.isEmpty {
        add(.backgroundModes, .good, place, remark: there)
      }
    }
  }

  mutating func compareGroups() {
    let opened = app[.group].filter(Expectation.isOwn)
    // What the app and its extensions agree on.
    let main = expected.isPackage || app[.group].first == opened.first ? opened.first : nil
    // A group of the code's that no part allows is the code's mistake.
    let allowed = app[.entitledGroup].filter(Expectation.isOwn)
    let isAllowed = allowed.isEmpty || allowed.contains { $0.text == main?.text }
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
          groups.allSatisfy(Expectation.isOwn), isAllowed, part.needsEntitlements || !groups.isEmpty
        else { break }
        let there = groups.isEmpty ? "no app group" : "only \(groups.map(\.text).joined(separator: " and "))"
        add(
          .entitledGroup, .fault, Value("", file: file, line: groups.first?.line),
          remark: "it allows \(there)", "\(main.text), as in \(main.file.text)", Self.effect(on: part))
      }
    }
  }

  private static func effect(on part: AppFacts.Part) -> String {
    part.isApp
      ? "the app finds no folder to share with its extensions: it stops at its start, or notifications stay without text"
      : part.isNotificationService
        ? "the extension cannot read what the app has stored: its notifications stay without text"
        : "\(part.name) cannot read what the app has stored, and knows neither accounts nor keys"
  }
}
