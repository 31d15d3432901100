internal import Platform

/// What the app for iOS and its extensions have to agree on, but for their groups.
extension Comparison {
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
