package import Foundation
import Synchronization

/// The format of a setting's values, and how they are parsed.
package struct SettingShape<Value>: Sendable {
  package let expected: String
  package let example: String
  package let isList: Bool
  package let choices: [String]
  /// Returns nil for an invalid text. URLs throw, to say more precisely what is wrong, or not to show a password.
  package let parse: @Sendable (String) throws(SettingError) -> Value?

  package init(
    expected: String, example: String, isList: Bool = false, choices: [String] = [],
    parse: @escaping @Sendable (String) throws(SettingError) -> Value?
  ) {
    self.expected = expected
    self.example = example
    self.isList = isList
    self.choices = choices
    self.parse = parse
  }
}

/// A problem with a value that says more than what was expected.
package struct SettingError: Error {
  package let message: String

  package init(_ message: String) { self.message = message }
}

extension SettingShape {
  /// One of a few named values.
  package static func choice(_ choices: [(name: String, value: Value)], _ example: String) -> SettingShape
  where Value: Sendable {
    let names = choices.map(\.name)
    return SettingShape(
      expected: "one of \(names.joined(separator: ", "))", example: example, choices: names
    ) { text in choices.first { $0.name == text }?.value }
  }

  /// A list whose items `element` parses.
  package static func list<Element>(
    _ expected: String, example: String, _ element: @escaping @Sendable (String) -> Element?
  ) -> SettingShape where Value == [Element] {
    SettingShape(expected: expected, example: example, isList: true) { text in
      if text.isEmpty { return [] }
      let elements = text.split(separator: ",", omittingEmptySubsequences: false)
        .map { element($0.trimmingCharacters(in: .whitespaces)) }
      return elements.contains { $0 == nil } ? nil : elements.compactMap(\.self)
    }
  }
}

extension SettingShape<Bool> {
  package static var flag: SettingShape {
    SettingShape(expected: "true or false", example: "true", choices: ["true", "false"]) { text in
      switch text.lowercased() {
      case "true", "yes", "on": true
      case "false", "no", "off": false
      default: nil
      }
    }
  }
}

extension SettingShape<Int> {
  package static func port(_ example: Int) -> SettingShape {
    SettingShape(expected: "a port, 0 to 65535", example: "\(example)") {
      Int($0).flatMap { (0...65535).contains($0) ? $0 : nil }
    }
  }

  package static func count(atLeast least: Int, example: Int) -> SettingShape {
    SettingShape(expected: "a whole number, at least \(least)", example: "\(example)") {
      Int($0).flatMap { $0 >= least ? $0 : nil }
    }
  }

  package static var size: SettingShape {
    SettingShape(
      expected: "a size like 1048576, 512 KiB or 16 MiB", example: "16 MiB", parse: { Quantity.size($0) })
  }
}

extension SettingShape<TimeInterval> {
  package static func days(atLeast least: Int = 0, example: Int) -> SettingShape {
    let expected = least > 0 ? "a whole number, at least \(least)" : "a whole number"
    return SettingShape(expected: expected, example: "\(example)") {
      Int($0).flatMap { $0 >= least ? TimeInterval($0) * 86_400 : nil }
    }
  }
}

extension SettingShape<Duration> {
  package static var duration: SettingShape {
    SettingShape(
      expected: "a duration like 500ms, 10s, 5m, 24h or 30d", example: "10s",
      parse: { Quantity.duration($0) })
  }
}

extension SettingShape<String> {
  private static func nonempty(_ expected: String, _ example: String) -> SettingShape {
    SettingShape(expected: expected, example: example) { $0.isEmpty ? nil : $0 }
  }

  package static func text(_ example: String) -> SettingShape { nonempty("a text", example) }
  package static func file(_ example: String) -> SettingShape { nonempty("the path of a file", example) }
  package static func folder(_ example: String) -> SettingShape { nonempty("the path of a folder", example) }

  package static func host(_ example: String) -> SettingShape {
    let expected = "an IP address or a host name of this machine, without http://, port and brackets"
    return SettingShape(expected: expected, example: example) { text in
      let colons = text.utf8.count { $0 == UInt8(ascii: ":") }
      // More than one colon is an IPv6 address.
      return text.isEmpty || text.contains("/") || text.contains("[") || colons == 1 ? nil : text
    }
  }

  package static var token: SettingShape {
    nonempty("a text that nobody can guess", "what `openssl rand -hex 32` prints")
  }

  /// A URL without a trailing slash.
  package static func address(_ example: String) -> SettingShape {
    SettingShape(expected: SettingShape<URL>.expected, example: example) { text throws(SettingError) in
      guard let url = try SettingShape<URL>.parse(text)?.absoluteString else { return nil }
      return url.hasSuffix("/") ? String(url.dropLast()) : url
    }
  }
}

extension SettingShape<URL> {
  package static let expected = "a URL with http:// or https:// and a host"

  /// - Parameter mayHaveUser: whether a user and a password may be given.
  /// - Throws: ``SettingError`` for a part of the URL that would be ignored or end up in the wrong place. Its text does not
  ///   repeat the URL, which may hold a password.
  package static func parse(_ text: String, mayHaveUser: Bool = false) throws(SettingError) -> URL? {
    let url = URL(string: text)
    guard mayHaveUser || url?.user == nil && (url != nil || !text.contains("@")) else {
      throw SettingError("has a user or a password, which would not be used: leave them out")
    }
    guard let url, ["http", "https"].contains(url.scheme?.lowercased()), url.host()?.isEmpty == false
    else { return nil }
    guard !text.contains("?"), !text.contains("#") else {
      throw SettingError("has a part after ? or #, which an address must not have: leave it out")
    }
    // The scheme is compared in lower case, wherever it matters.
    return url.scheme.flatMap { URL(string: $0.lowercased() + text.dropFirst($0.count)) }
  }

  package static func url(_ example: String) -> SettingShape {
    SettingShape(expected: expected, example: example) { text throws(SettingError) in try parse(text) }
  }

  package static var proxy: SettingShape {
    SettingShape(expected: expected, example: "http://user:password@proxy.example.org:3128") {
      text throws(SettingError) in
      try parse(text, mayHaveUser: true)
    }
  }
}

/// Durations and sizes as written in settings.
package enum Quantity {
  /// `500ms`, `10s`, `5m`, `24h`, `30d`; a bare number is seconds.
  package static func duration(_ text: String) -> Duration? {
    let units: [(String, Double)] = [("ms", 0.001), ("s", 1), ("m", 60), ("h", 3600), ("d", 86_400), ("", 1)]
    for (suffix, seconds) in units where text.hasSuffix(suffix) {
      let number = text.dropLast(suffix.count).trimmingCharacters(in: .whitespaces)
      guard let value = Double(number), value.isFinite, value >= 0, value * seconds < 1e10 else { return nil }
      return .milliseconds(Int64((value * seconds * 1000).rounded()))
    }
    return nil
  }

  /// `1048576`, `512 KiB`, `16 MiB`, `1 GiB`.
  package static func size(_ text: String) -> Int? {
    let units = [("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("", 1)]
    for (suffix, bytes) in units where text.hasSuffix(suffix) {
      let number = text.dropLast(suffix.count).trimmingCharacters(in: .whitespaces)
      guard let value = Int(number), value > 0, value <= Int.max / bytes else { return nil }
      return value * bytes
    }
    return nil
  }
}
