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
