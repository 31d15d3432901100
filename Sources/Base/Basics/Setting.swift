import Foundation
import Synchronization

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
