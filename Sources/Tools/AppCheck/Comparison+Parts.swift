internal import Platform

/// What the app for iOS and its extensions have to agree on, but for their groups.
extension Comparison {
  mutating func compareBundles() {
    let measure = expected.measure
    for part in app.parts {
      for other in part.otherBundles where Vendor.owns(.bundleID, other.text) { addVendors(other) }
      guard let id = part.bundle else { continue }
      if Vendor.owns(.bundleID, id.text) {
        addVendors(id)
      } else if part.isApp {
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
  private mutating func addVendors(_ id: Value) {
    let name = Vendor.name(of: id.text) ?? ""
    let bundles = expected.measure.map { [$0] } ?? expected.topics
    let ending = id.text.dropFirst(name.utf8.count)
    let effect =
      "only the vendor can sign an app of this name; Apple refuses pushes to it with a key of yours"
    if let index = found.firstIndex(where: { $0.effect == effect && ($0.value.flatMap(Vendor.name) == name) })
    {
      let place = Self.place(of: id)
      if !found[index].places.contains(place) { found[index].places.append(place) }
      if found[index].value != id.text {
        found[index].value = name
        found[index].expected =
          expected.any(bundles, or: "a bundle id of your own") + ", also before the names of extensions"
      }
    } else {
      add(
        .bundleID, .fault, id, remark: "the vendor's own",
        expected.any(bundles.map { $0 + ending }, or: "a bundle id of your own"), effect)
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
      !self.app.unread.contains(where: { $0.aspect == .notificationService })
    else { return }
    let effect =
      "what arrives is encrypted, and nothing decrypts it: a notification shows no text, or not at all"
    let services = self.app.parts.filter { $0.isNotificationService }
    if let service = services.first {
      guard !services.contains(where: \.isEmbedded) else { return }
      let place = service.bundle ?? Value("", file: self.app.project ?? "")
      add(
        .notificationService, .fault, place.with(""),
        remark: "\(service.name) is not embedded in \(app.name)",
        "\(service.name) among \"Embed Foundation Extensions\" of \(app.name)", effect)
    } else if let wrong = self.app.parts.first(where: \.isCalledNotificationService) {
      let place = wrong.point ?? Value("", file: wrong.bundle?.file ?? "")
      add(
        .notificationService, .fault, place,
        remark: wrong.point == nil ? "\(wrong.name) has no NSExtensionPointIdentifier" : nil,
        "NSExtensionPointIdentifier with \(AppFacts.Part.service)", effect)
    } else if self.app.product != .zulip || !self.app[.bouncerKey].isEmpty {
      // Versions of Zulip's app without encryption have none.
      add(
        .notificationService, .fault, Value("", file: self.app.project ?? ""),
        remark: "there is none", "an extension of the app for \(AppFacts.Part.service)", effect)
    }
  }

  mutating func compareBackgroundModes() {
    for part in app.parts where part.isApp {
      guard let (place, modes) = part.backgroundModes else { continue }
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
}
