internal import Foundation
internal import Wire

/// Reads raw values as what they should be; an empty text counts as no value.
struct ConfigurationReader {
  let source: ConfigurationSource

  private func raw(_ key: String) -> ConfigurationSource.Raw? {
    let raw =
      source.values[key]
      ?? Setting.named(key).map { .init(text: $0.standard, source: "the defaults") }
    return raw.flatMap { $0.text.isEmpty ? nil : $0 }
  }

  private func read<Value>(
    _ key: String, wants: String, _ parse: (String) -> Value?
  ) throws(ConfigurationError) -> Value? {
    guard let raw = raw(key) else { return nil }
    guard let value = parse(raw.text.trimmingCharacters(in: .whitespaces)) else {
      // A malformed value may have its password anywhere.
      let isOpen = Setting.named(key)?.secrecy == Setting.Secrecy.none
      throw ConfigurationError(
        source: raw.source, key: key, isOpen ? "wants \(wants), not \"\(raw.text)\"" : "wants \(wants)")
    }
    return value
  }

  private func required<Value>(
    _ key: String, wants: String, _ parse: (String) -> Value?
  ) throws(ConfigurationError) -> Value {
    guard let value = try read(key, wants: wants, parse) else {
      throw ConfigurationError(
        source: source.values[key]?.source ?? "the configuration", key: key, "wants \(wants)")
    }
    return value
  }

  /// Whether somebody has given it a value.
  func isSet(_ key: String) -> Bool { source.values[key].map { !$0.text.isEmpty } ?? false }

  func optionalText(_ key: String) -> String? { raw(key)?.text }

  func text(_ key: String) throws(ConfigurationError) -> String { try required(key, wants: "a text") { $0 } }

  func port(_ key: String) throws(ConfigurationError) -> Int {
    try required(key, wants: "a port, 0 to 65535") { Int($0).flatMap { (0...65535).contains($0) ? $0 : nil } }
  }

  func count(_ key: String, atLeast least: Int = 0) throws(ConfigurationError) -> Int {
    try required(key, wants: least > 0 ? "a whole number, \(least) at least" : "a whole number") {
      Int($0).flatMap { $0 >= least ? $0 : nil }
    }
  }

  /// At least one, where a value is given.
  func optionalCount(_ key: String) throws(ConfigurationError) -> Int? {
    raw(key) == nil ? nil : try count(key, atLeast: 1)
  }

  func flag(_ key: String) throws(ConfigurationError) -> Bool {
    try required(key, wants: "true or false") { text in
      switch text.lowercased() {
      case "true", "yes", "on": true
      case "false", "no", "off": false
      default: nil
      }
    }
  }

  func list(_ key: String) -> [String] {
    (raw(key)?.text ?? "").split(separator: ",").map { $0.trimmingCharacters(in: .whitespaces) }.filter {
      !$0.isEmpty
    }
  }

  func networks(_ key: String) throws(ConfigurationError) -> [ClientAddress.Network] {
    try read(key, wants: "addresses and ranges like 10.0.0.0/8 or 2001:db8::/32, comma-separated") { text in
      let networks = text.split(separator: ",", omittingEmptySubsequences: false)
        .map { ClientAddress.Network($0.trimmingCharacters(in: .whitespaces)) }
      return networks.contains(nil) ? nil : networks.compactMap(\.self)
    } ?? []
  }

  func duration(_ key: String) throws(ConfigurationError) -> Duration {
    try required(key, wants: "a duration like 500ms, 10s, 5m or 24h", Configuration.duration)
  }

  func size(_ key: String) throws(ConfigurationError) -> Int {
    try required(key, wants: "a size like 1048576, 512 KiB or 16 MiB", Configuration.size)
  }

  /// nil is no limit; an empty value does not mean that.
  func rate(_ key: String) throws(ConfigurationError) -> RateLimit? {
    try required(key, wants: "a rate like 1000/60s, or 0 for no limit", Configuration.rate)
  }

  func url(_ key: String) throws(ConfigurationError) -> URL? {
    try read(key, wants: "a URL with http:// or https:// and a host", Self.url)
  }

  private static func url(_ text: String) -> URL? {
    guard let url = URL(string: text), ["http", "https"].contains(url.scheme), url.host()?.isEmpty == false
    else { return nil }
    return url
  }

  func bouncer(_ key: String) throws(ConfigurationError) -> Configuration.Server.Bouncer {
    try required(key, wants: "local, off, or a bouncer's URL") { text in
      switch text {
      case "local": .local
      case "off": .off
      default: Self.url(text).map { .remote($0) }
      }
    }
  }

  func choice<Choice: RawRepresentable & CaseIterable>(_ key: String, _: Choice.Type)
    throws(ConfigurationError) -> Choice
  where Choice.RawValue == String {
    try required(key, wants: "one of " + Choice.allCases.map(\.rawValue).joined(separator: ", "), Choice.init)
  }
}

extension Configuration {
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
  static func size(_ text: String) -> Int? {
    let units = [("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("", 1)]
    for (suffix, bytes) in units where text.hasSuffix(suffix) {
      let number = text.dropLast(suffix.count).trimmingCharacters(in: .whitespaces)
      guard let value = Int(number), value > 0, value <= Int.max / bytes else { return nil }
      return value * bytes
    }
    return nil
  }

  /// `1000/60s`; `0` is no limit; nil is neither.
  static func rate(_ text: String) -> RateLimit?? {
    if text == "0" { return .some(nil) }
    let parts = text.split(separator: "/", omittingEmptySubsequences: false)
    guard parts.count == 2, let calls = Int(parts[0]), calls > 0, let window = duration(String(parts[1])),
      window > .zero
    else { return nil }
    return RateLimit(
      calls: calls, seconds: Double(window.components.seconds) + Double(window.components.attoseconds) / 1e18)
  }
}
