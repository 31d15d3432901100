internal import Platform

/// One app beside one service: what its table says of each value, and what its parts have to agree on.
struct Comparison {
  let expected: Expectation
  var app: AppFacts { expected.app }
  var service: AppCheck.Service { expected.service }
  var found: [AppCheck.Finding] = []

  init(app: AppFacts, service: AppCheck.Service, isPackage: Bool) {
    expected = Expectation(app: app, service: service, isPackage: isPackage)
  }

  mutating func findings() -> [AppCheck.Finding] {
    for unread in app.files.unread { add(unread.aspect, .skipped, unread.place, remark: unread.reason) }
    var seen: Set<Aspect> = []
    for row in app.rows where seen.insert(row.aspect).inserted { compare(row) }
    for (row, name, place) in app.lacking {
      add(
        row.aspect, .fault, place, remark: "there is no \(name.text)", row.must(expected), row.effects.missing
      )
    }
    compareBundles()
    compareNotificationService()
    compareGroups()
    compareBackgroundModes()
    for row in Row.general { compare(row) }
    return found
  }

  private mutating func compare(_ row: Row) {
    // Of texts that begin alike the first is the one that is sent.
    let values = row.aspect == .userAgent ? Array(app[.userAgent].prefix(1)) : app[row.aspect]
    // Whoever has changed a file that no build reads believes that all is done.
    let note =
      row.aspect.isFirebase ? app.unusedGoogleServices.map { " (no build reads \($0.text))" } ?? "" : ""
    for value in values {
      // That a number is the vendor's, or none, is said where it stands.
      if row.aspect.isFirebase, let number = FirebaseApp.number(of: value.text),
        !expected.numbers.contains(number), !Vendor.isApp(value.text),
        app[.firebaseNumber].contains(where: { $0.text == number })
      {
        continue
      }
      // A name of the vendor's that is a fault is not left over besides.
      if row.aspect == .leftover, !faults(at: Self.place(of: value)).isEmpty { continue }
      let judgement =
        Vendor.owns(row.aspect, value.text)
        ? Judgement(
          row.aspect == .firebaseForIOS ? .warning : .fault, "the vendor's own", effect: row.effects.vendors)
        : value.text.isEmpty
          ? .init(.fault, "it is empty", effect: row.effects.missing) : row.judge(value, expected)
      let isWrong = [.warning, .fault].contains(judgement.standing)
      add(
        row.aspect, judgement.standing, value, remark: judgement.remark,
        isWrong ? judgement.must ?? row.must(expected) : nil,
        isWrong ? (judgement.effect ?? row.effects.other) + note : nil)
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
      check: aspect.rawValue, standing: standing, value: value.text.isEmpty ? nil : value.text,
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
}
