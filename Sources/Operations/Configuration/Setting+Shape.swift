internal import Foundation

extension Setting {
  /// What a value looks like.
  struct Shape: Sendable {
    /// What is said when a value is none: `a port, 0 to 65535`.
    let wants: String
    /// A value that would be right.
    let example: String
    /// Whether it is a list: in a file also written as one, elsewhere with commas.
    var isList = false

    static let flag = Shape(wants: "true or false", example: "true")
    static let duration = Shape(wants: "a duration like 500ms, 10s, 5m, 24h or 30d", example: "10s")
    static let size = Shape(wants: "a size like 1048576, 512 KiB or 16 MiB", example: "16 MiB")
    static let rate = Shape(wants: "a rate like 1000/60s, or 0 for no limit", example: "1000/60s")
    static let token = Shape(
      wants: "a text that nobody guesses", example: "what `openssl rand -hex 32` prints")
    static let networks = Shape(
      wants: "addresses and ranges like 10.0.0.0/8 or 2001:db8::/32, comma-separated",
      example: "10.0.0.0/8, 2001:db8::/32", isList: true)
    static let hostnames = Shape(
      wants: "hostnames like chat.example.org, *.example.org or chat.example.org:8443, in ASCII",
      example: "chat.example.org, *.example.net", isList: true)
    static let hosts = Shape(
      wants: "host names or addresses without a port, comma-separated", example: "ntfy.example.org, 10.0.0.7",
      isList: true)
    static let contact = Shape(
      wants: "mailto: and an address, or a URL with https://", example: "mailto:push@example.org")
    static let database = Shape(
      wants: "sqlite:PATH or postgres://USER:PASSWORD@HOST:PORT/NAME",
      example: "postgres://push:secret@db.example.org:5432/push?sslmode=verify-full")
    static let bouncer = Shape(
      wants: "local, off, or a bouncer's URL", example: "https://push.example.org")

    static func host(_ example: String) -> Shape {
      Shape(wants: "an IP address or a host name of this machine", example: example)
    }

    static func port(_ example: Int) -> Shape { Shape(wants: "a port, 0 to 65535", example: "\(example)") }

    static func text(_ example: String) -> Shape { Shape(wants: "a text", example: example) }
    static func file(_ example: String) -> Shape { Shape(wants: "the path of a file", example: example) }
    static func folder(_ example: String) -> Shape { Shape(wants: "the path of a folder", example: example) }

    static func url(_ example: String) -> Shape {
      Shape(wants: "a URL with http:// or https:// and a host", example: example)
    }

    static func count(atLeast least: Int = 0, example: Int) -> Shape {
      Shape(wants: least > 0 ? "a whole number, \(least) at least" : "a whole number", example: "\(example)")
    }

    static func choice<Choice: RawRepresentable & CaseIterable>(_: Choice.Type, _ example: Choice) -> Shape
    where Choice.RawValue == String {
      Shape(
        wants: "one of \(Choice.allCases.map(\.rawValue).joined(separator: ", "))", example: example.rawValue)
    }
  }
}

extension Setting {
  static let prefix = "PUSH_BOUNCER_"

  /// `PUSH_BOUNCER_HTTP_PORT`
  var variable: String {
    Self.prefix + key.uppercased().replacing(".", with: "_")
  }

  /// The key of a variable as far as it can be told: `HTTP_MAX_BODY_BYTES` has more than one.
  static func key(ofVariable variable: String) -> String {
    let name = variable.dropFirst(prefix.count).lowercased()
    return all.first { $0.key.replacing(".", with: "_") == name }?.key ?? name.replacing("_", with: ".")
  }

  /// `http`
  var section: Substring { key.prefix { $0 != "." } }

  /// The setting with this key.
  static func named(_ key: String) -> Setting? { all.first { $0.key == key } }

  /// The key that somebody has most likely meant, if one is close enough.
  static func nearest(to key: String) -> String? {
    guard key.utf8.count <= 60 else { return nil }
    let distances = all.map { (key: $0.key, distance: distance(key, $0.key)) }
    guard let nearest = distances.min(by: { $0.distance < $1.distance }) else { return nil }
    return nearest.distance <= max(2, key.utf8.count / 4) ? nearest.key : nil
  }

  /// How many letters have to be put in, taken out or changed to make one text of the other (Levenshtein).
  private static func distance(_ left: String, _ right: String) -> Int {
    let right = Array(right.utf8)
    var row = Array(0...right.count)
    for (index, letter) in left.utf8.enumerated() {
      var diagonal = row[0]
      row[0] = index + 1
      for column in right.indices {
        let change = diagonal + (letter == right[column] ? 0 : 1)
        diagonal = row[column + 1]
        row[column + 1] = min(change, row[column] + 1, diagonal + 1)
      }
    }
    return row[right.count]
  }

  /// A value as the log may show it.
  func shown(_ value: String) -> String {
    switch secrecy {
    case .none: return value
    case .whole: return value.isEmpty ? "" : Self.redacted
    case .password:
      // What cannot be taken apart is shown only if it has no place for a password.
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

extension Configuration {
  /// The command that renews `Documentation/Configuration.md`.
  package static let referenceCommand = "swift run push-bouncer settings > Documentation/Configuration.md"

  /// `Documentation/Configuration.md` without the end of its last line: every key as it stands in the table of settings.
  package static func reference() -> String {
    var text = """
      # Configuration

      Every setting of push-bouncer. This page is made from the table in
      [Setting.swift](../Sources/Operations/Configuration/Setting.swift) by
      `\(referenceCommand)`.

      A value is taken from the first of these that has one:

      1. the command line: `--http.port 9000` or `--http-port 9000`
      2. the environment: the variable that stands below each key
      3. the file: the one that `--config` names, else `push-bouncer.yaml` in the working folder, else \
      `\(systemFolder)/push-bouncer.yaml`
      4. the default

      In the file a key may be written in one line (`http.port: 9000`) or in sections:

      ```yaml
      http:
        port: 9000
        trusted_proxies: [10.0.0.0/8, "2001:db8::/32"]
      ```

      A key that does not exist and a value that is none are errors: nothing starts half-configured.
      `push-bouncer init` writes a file with every key, commented out. `push-bouncer doctor` checks the values in use.
      What is marked *secret* is never logged or shown.

      """
    var section: Substring = ""
    for setting in Setting.all {
      if setting.section != section {
        section = setting.section
        text += """

          ## \(titles[String(section)] ?? "`\(section)`")

          | key | default | value | meaning |
          |---|---|---|---|

          """
      }
      text += "\(setting.row)\n"
    }
    return String(text.dropLast())
  }

  /// What the keys of a section are about.
  private static let titles = [
    "http": "Public listener", "operator": "Operator", "admin": "Operator's listener", "database": "Database",
    "keys": "Keys", "bouncer": "Bouncer for chat servers", "apns": "Apple", "fcm": "Google",
    "providers": "All push services", "webpush": "Web Push", "delivery": "Delivery",
    "retention": "What is forgotten when",
    "backend": "Backend API", "server": "Built-in chat-server side", "nextcloud": "Nextcloud", "log": "Log",
  ]
}

extension Setting {
  fileprivate var row: String {
    let value = "\(Self.cell(shape.wants))<br>e.g. \(Self.code(shape.example))"
    let secret = secrecy == .none ? "" : secrecy == .whole ? ". *Secret*" : ". *The password in it is secret*"
    return """
      | `\(key)`<br>`\(variable)` | \(standard.isEmpty ? "unset" : "`\(standard)`") | \(value) | \
      \(Self.cell(help))\(secret) |
      """
  }

  private static func cell(_ text: String) -> String {
    text.replacing("|", with: "\\|").replacing("*.", with: "\\*.").replacing("_", with: "\\_")
  }

  /// An example that is a sentence has its own marks.
  private static func code(_ text: String) -> String { text.contains("`") ? text : "`\(text)`" }
}
