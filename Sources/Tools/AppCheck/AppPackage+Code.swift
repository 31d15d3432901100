internal import Foundation
internal import NextcloudProxy
internal import Platform

extension PackageReader {
  /// Finds what the rows look for in the code among its texts. One processor's code says what all do.
  func readCode(_ facts: inout AppFacts, _ names: [Name], isDart: Bool) throws {
    var found: [Aspect: Set<Name>] = [:]
    let aspects = Set(facts.rows.filter { $0.package?.isCode ?? false }.map(\.aspect))
    let hosts = Set([service.address, Vendor.proxy].compactMap { $0.flatMap(Self.host) })
    var isRead = !names.isEmpty
    for name in names {
      isRead =
        try files.texts(name) { text in
          for aspect in aspects {
            found[aspect, default: []].formUnion(words(of: aspect, in: text, isDart, hosts))
          }
        } && isRead
    }
    let file = names.first ?? "classes.dex"
    let groups = Set(facts.parts.flatMap(\.groups).map(\.text)).subtracting(Vendor.groups)
    let expected = Expectation(app: facts, service: service, isPackage: true)
    for row in facts.rows where row.isNeeded && (row.package?.isCode ?? false) && facts[row.aspect].isEmpty {
      let all = (found[row.aspect] ?? []).sorted()
      // The code has other texts of this form: what is one's own decides, then what is the vendor's.
      let vendors = all.filter { Vendor.owns(row.aspect, $0.text) }
      let others = all.filter { !vendors.contains($0) }
      let own = others.filter { text in
        row.aspect == .group
          ? groups.contains(text.text) : row.judge(Value(text, file: file), expected).standing == .good
      }
      var values =
        [own, Self.isDecisive(row.aspect) ? [] : others, vendors, others].first { !$0.isEmpty } ?? []
      // A short text of Swift is no text of the compiled code.
      if own.isEmpty, !isDart, isShort(row.aspect, facts) { values = [] }
      try facts.add(row.aspect, values.map { Value($0, file: file) })
      if values.isEmpty {
        try files.miss(
          row.aspect,
          isRead
            ? "the compiled code contains neither this service's nor the vendor's"
            : "the compiled code cannot be read", Value("", file: file))
      }
    }
  }

  /// Whether the vendor's text is the one that counts beside others of its form: these may be of something else.
  private static func isDecisive(_ aspect: Aspect) -> Bool { [.bouncerKey, .group].contains(aspect) }

  private func isShort(_ aspect: Aspect, _ facts: AppFacts) -> Bool {
    switch aspect {
    case .proxy: service.address.map { $0.utf8.count < 16 } ?? false
    case .group: facts.parts.contains { $0.groups.contains { $0.text.utf8.count < 16 } }
    default: false
    }
  }

  /// The texts of an aspect's form in a text of the code, whole.
  ///
  /// - Parameter hosts: those of the push proxies that are looked for.
  private func words(of aspect: Aspect, in text: [UInt8], _ isDart: Bool, _ hosts: Set<String>) -> [Name] {
    func words(
      with parts: [Name], of isPart: (UInt8) -> Bool, where isWanted: (Name) -> Bool
    ) -> [Name] {
      parts.contains(where: text.has) ? text.split { !isPart($0) }.map { Name($0) }.filter(isWanted) : []
    }
    func isURL(_ byte: UInt8) -> Bool {
      byte > 0x20 && byte < 0x7F && !"\"'<>()[]{}|\\^`,;".utf8.contains(byte)
    }
    switch aspect {
    case .bouncerKey:
      return words(with: ["="], of: { $0.isWord && $0 != "_" || "+/=".utf8.contains($0) }) {
        $0.bytes.count == 44 && $0.bytes.last == "=" && $0.bytes[42] != "="
      }
    case .proxy:
      return words(with: hosts.map { Name($0) }, of: isURL) {
        Self.host($0.text).map(hosts.contains) ?? false
      }
    case .firebaseProject:
      let names = (service.projects + Vendor.projects).map { Name($0) }
      let words = words(with: names, of: { $0.isWord || $0 == "-" }) { _ in true }
      return names.filter { name in
        words.contains { word in
          // The next object may follow such a text of Dart's without a gap.
          word == name
            || (isDart && name.bytes.count % 8 == 0 && word.hasPrefix(name)
              && word.bytes.count < name.bytes.count + 8)
        }
      }
    case .firebaseApp, .firebaseForIOS:
      let platform: Name = aspect == .firebaseApp ? ":android:" : ":ios:"
      return words(with: [platform], of: { $0.isWord || $0 == ":" }) {
        $0.hasPrefix("1:") && $0.contains(platform)
      }
    case .firebaseKey:
      return words(with: ["AIza"], of: { $0.isWord || $0 == "-" }) { $0.hasPrefix("AIza") }
    case .group:
      return words(with: ["group."], of: \.isInIdentifier) {
        $0.hasPrefix("group.") && $0.bytes.count { $0 == "." } > 2
      }
    case .userAgent:
      let agents: [Name] = ["Mozilla/5.0 (Android) ", "Mozilla/5.0 (iOS) "]
      return agents.compactMap(text.position).map { Name(text[$0...]) }
    default: return []
    }
  }

  /// The host of an address in small letters; nil if it is none.
  private static func host(_ address: String) -> String? { URL(string: address)?.host()?.lowercased() }
}
