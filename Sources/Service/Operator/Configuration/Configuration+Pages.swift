import Basics
import Providers
import SQL

extension Configuration {
  /// The file that `init` writes: every key, commented out, with its default and its meaning.
  package static func sampleYAML() -> String {
    var text = """
      # push-bouncer: a key that is commented out has the value shown. Each key can also be set in the
      # environment (http.port is PUSH_BOUNCER_HTTP_PORT) or on the command line (--http.port).

      """
    var section: Substring = ""
    for setting in settings {
      if setting.section != section {
        text += "\n"
        section = setting.section
      }
      text += "# \(setting.help)\n#\(setting.key): \(setting.standard)\n"
    }
    return text
  }

  /// `Documentation/Configuration.md` without its final line break, generated from all settings.
  package static func reference() -> String {
    var text = """
      # Configuration

      Every setting of push-bouncer. This page is made from the declarations of the settings, which are in the parts
      that [Configuration.swift](../Sources/Service/Operator/Configuration/Configuration.swift) lists, by
      `Scripts/release/documentation`.

      A value is taken from the first of these that has one:

      1. the command line: `--http.port 9000` or `--http-port 9000`
      2. the environment: the variable below each key, unless it is empty or blank
      3. the file: the one that `--config` names, else `push-bouncer.yaml` in the working folder, else \
      `\(systemFolder)/push-bouncer.yaml`
      4. the default

      In the file a key may be written in one line (`http.port: 9000`) or in sections:

      ```yaml
      http:
        port: 9000
        trusted_proxies: [10.0.0.0/8, "2001:db8::/32"]
      ```

      An unknown key or an invalid value is an error: nothing starts half-configured. So is a control character in a value, such
      as the line break that a secret may end in. Unknown variables are a warning. In Kubernetes a Service may put its address into
      variables of these names: the pod's spec needs `enableServiceLinks: false`, as the manifests have it.
      `push-bouncer init` writes a file with every key, commented out. `push-bouncer doctor` checks the values in use.
      What is marked *secret* is never logged or shown. It does not belong on the command line, which every user of the machine can
      see.

      """
    var section: Substring = ""
    for setting in settings {
      if setting.section != section {
        section = setting.section
        text += """

          ## \(title(of: String(section)))

          | key | default | value | meaning |
          |---|---|---|---|

          """
      }
      text += "\(setting.row)\n"
    }
    return String(text.dropLast())
  }

  private static func title(of section: String) -> String {
    titles[section] ?? Route.Provider(rawValue: section)?.definition.credential?.owner ?? "`\(section)`"
  }

  /// The titles of the sections that have no credential's owner as title.
  private static let titles = [
    "http": "Public listener", "operator": "Operator", "admin": "Operator's listener", "database": "Database",
    "keys": "Keys", "bouncer": "Bouncer for chat servers", "providers": "All push services",
    "webpush": "Web Push", "delivery": "Delivery",
    "retention": "What is forgotten when",
    "backend": "Backend API", "server": "Built-in chat-server side", "nextcloud": "Nextcloud", "log": "Log",
  ]
}

extension SettingDeclaration {
  fileprivate var row: String {
    let value = "\(Self.cell(expected))<br>e.g. \(Self.code(example))"
    let secret = secrecy == .none ? "" : secrecy == .whole ? ". *Secret*" : ". *The password in it is secret*"
    return """
      | `\(key)`<br>`\(variable)` | \(standard.isEmpty ? "unset" : "`\(standard)`") | \(value) | \
      \(Self.cell(help))\(secret) |
      """
  }

  private static func cell(_ text: String) -> String {
    text.replacing("|", with: "\\|").replacing("*.", with: "\\*.").replacing("_", with: "\\_")
  }

  /// The text as inline code, unless it is a sentence with its own code marks.
  private static func code(_ text: String) -> String { text.contains("`") ? text : "`\(text)`" }
}
