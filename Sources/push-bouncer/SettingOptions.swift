import ArgumentParser
import Operations

/// Every key of the configuration as an option of its own: for `--help` and for what the shell completes.
///
/// ``SettingArguments`` has turned them into `--set` before they are parsed, for every command alike, so that nothing is
/// read here. The parser finds the options of a type by looking at its properties with `Mirror`: this type shows it one
/// for each entry of the table of settings, so that none is declared twice.
struct SettingOptions: ParsableArguments, CustomReflectable {
  init() {}

  init(from decoder: any Decoder) throws { _ = try decoder.container(keyedBy: Key.self) }

  var customMirror: Mirror {
    Mirror(
      self,
      children: Configuration.keyHelp.map { setting in
        let option = Option<String?>(
          name: .customLong(SettingArguments.option(setting.key)),
          help: ArgumentHelp(
            "\(setting.help)\(setting.standard.isEmpty ? "" : " (default: \(setting.standard))")",
            valueName: setting.key),
          completion: setting.completion)
        return (label: "_\(setting.key)", value: option)
      })
  }

  private struct Key: CodingKey {
    let stringValue: String
    var intValue: Int? { nil }

    init?(stringValue: String) { self.stringValue = stringValue }
    init?(intValue: Int) { nil }
  }
}

extension Configuration.KeyHelp {
  fileprivate var completion: CompletionKind {
    if key.hasSuffix("_file") { return .file() }
    if key == "keys.directory" { return .directory }
    return choices.isEmpty ? .default : .list(choices)
  }
}

/// Lets every configuration key be an option of every command.
enum SettingArguments {
  /// `http-rate-limit-per-address`
  static func option(_ key: String) -> String {
    key.replacing(".", with: "-").replacing("_", with: "-")
  }

  /// Turns `--http.port 9000`, `--http-port=9000` and the like into `--set http.port=9000`.
  static func rewrite(_ arguments: [String]) -> [String] {
    let names = Dictionary(
      Configuration.keys.flatMap { [("--\($0)", $0), ("--\(option($0))", $0)] },
      uniquingKeysWith: { first, _ in first })
    var rewritten: [String] = []
    var rest = arguments[...]
    while let argument = rest.popFirst() {
      if argument == "--" { return rewritten + [argument] + rest }
      let parts = argument.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
      guard let key = parts.first.flatMap({ names[String($0)] }) else {
        rewritten.append(argument)
        continue
      }
      guard let value = parts.count > 1 ? String(parts[1]) : rest.popFirst() else {
        // Left as it was, for the parser to complain about.
        rewritten.append(argument)
        continue
      }
      rewritten += ["--set", "\(key)=\(value)"]
    }
    return rewritten
  }
}
