package import Foundation
internal import Synchronization

/// A setting: its value, and its declaration for parsing, help texts and the reference page.
///
/// The initialiser registers the declaration with the current ``SettingsReader``, which parses the value and
/// collects all declarations and the first fault.
@propertyWrapper
package struct Setting<Value: Sendable>: Sendable {
  package let wrappedValue: Value
  /// Whether a value was given, so that the default is not used.
  package let isSet: Bool

  /// - Parameters:
  ///   - standard: the default, as written in a file.
  ///   - help: a sentence for the operator, without its full stop.
  package init(
    _ key: String, _ standard: String, _ shape: SettingShape<Value>, _ help: String,
    secrecy: SettingDeclaration.Secrecy = .none
  ) {
    let declaration = SettingDeclaration(
      key: key, standard: standard, help: help, secrecy: secrecy, expected: shape.expected,
      example: shape.example,
      isList: shape.isList, choices: shape.choices)
    guard let value = SettingsReader.current.value(of: declaration, shape.parse) else {
      preconditionFailure("the default of \(key) is not a valid value")
    }
    wrappedValue = value
    isSet = SettingsReader.current.isSet(key)
  }

  /// A setting that may be unset.
  package init<Wrapped>(
    _ key: String, _ standard: String, _ shape: SettingShape<Wrapped>, _ help: String,
    secrecy: SettingDeclaration.Secrecy = .none
  ) where Value == Wrapped? {
    let optional = SettingShape<Value>(expected: shape.expected, example: shape.example) {
      text throws(SettingError) in
      text.isEmpty ? .some(nil) : try shape.parse(text).map { .some($0) }
    }
    self.init(key, standard, optional, help, secrecy: secrecy)
  }

  /// A setting that may be unset and has no default.
  package init<Wrapped>(
    _ key: String, _ shape: SettingShape<Wrapped>, _ help: String,
    secrecy: SettingDeclaration.Secrecy = .none
  ) where Value == Wrapped? {
    self.init(key, "", shape, help, secrecy: secrecy)
  }
}

/// The declaration of a setting, without the type of its value.
package struct SettingDeclaration: Sendable {
  /// Which part of the value must not be shown.
  package enum Secrecy: Sendable {
    case none
    /// The password in a URL.
    case password
    /// All of it.
    case whole
  }

  /// `http.port`
  package let key: String
  /// The default, as written in a file; empty if there is none.
  package let standard: String
  package let help: String
  package let secrecy: Secrecy
  /// A description of valid values, for error messages: `a port, 0 to 65535`.
  package let expected: String
  package let example: String
  /// Whether the value is a list: a YAML list in a file, separated by commas elsewhere.
  package let isList: Bool
  /// All valid values, if there are only a few.
  package let choices: [String]

  package static let prefix = "PUSH_BOUNCER_"

  /// `PUSH_BOUNCER_HTTP_PORT`
  package var variable: String { Self.prefix + key.uppercased().replacing(".", with: "_") }

  /// `http`
  package var section: Substring { key.prefix { $0 != "." } }

  /// The value for the log, with secrets redacted.
  package func shown(_ value: String) -> String {
    switch secrecy {
    case .none: return value
    case .whole: return value.isEmpty ? "" : Self.redacted
    case .password:
      // A URL that cannot be parsed is shown only if it cannot contain a password.
      guard var url = URLComponents(string: value, encodingInvalidCharacters: false) else {
        return value.contains("@") || value.contains("?") ? Self.redacted : value
      }
      url.password = url.password.map { _ in "redacted" }
      url.queryItems = url.queryItems?.map { item in
        item.name.lowercased().contains("password") ? URLQueryItem(name: item.name, value: "redacted") : item
      }
      return url.string ?? Self.redacted
    }
  }

  private static let redacted = "(redacted)"
}

/// A value as written, with its source: a line of a file, a variable, or the command line.
package struct WrittenValue: Sendable {
  package let text: String
  package let source: String

  package init(
    text: String, source: String
  ) {
    self.text = text
    self.source = source
  }
}

/// Parses settings while a configuration is created, in the order of their declarations.
package final class SettingsReader: Sendable {
  @TaskLocal package static var current = SettingsReader([:])

  private let written: [String: WrittenValue]
  private let state = Mutex((declarations: [SettingDeclaration](), fault: nil as Fault?))

  package init(_ written: [String: WrittenValue]) { self.written = written }

  package var declarations: [SettingDeclaration] { state.withLock { $0.declarations } }

  /// The first invalid value.
  package var fault: Fault? { state.withLock { $0.fault } }

  func isSet(_ key: String) -> Bool { written[key]?.text.isEmpty == false }

  /// The written value, or the default if there is none or it is invalid.
  func value<Value>(
    of declaration: SettingDeclaration, _ parse: (String) throws(SettingError) -> Value?
  ) -> Value? {
    state.withLock { $0.declarations.append(declaration) }
    guard let written = written[declaration.key] else { return try? parse(declaration.standard) }
    if let control = written.text.unicodeScalars.first(where: { $0.properties.generalCategory == .control }) {
      // What people do not see in it would be taken for a part of a token, a name or a path.
      let fault = Fault(
        source: written.source, key: declaration.key,
        "has a control character in it: U+\(String(format: "%04X", control.value))",
        advice: "write it anew in one line, without tabs, and with the line ends of Unix")
      state.withLock { $0.fault = $0.fault ?? fault }
      return try? parse(declaration.standard)
    }
    var problem = "must be \(declaration.expected)"
    // An invalid value of a setting with a secret is never shown, since the secret could be anywhere in it.
    if declaration.secrecy == .none, !written.text.isEmpty { problem += ", not \"\(written.text)\"" }
    do throws(SettingError) {
      if let value = try parse(written.text.trimmingCharacters(in: .whitespaces)) { return value }
    } catch {
      problem = error.message
    }
    let fault = Fault(source: written.source, key: declaration.key, problem)
    state.withLock { $0.fault = $0.fault ?? fault }
    return try? parse(declaration.standard)
  }
}

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
