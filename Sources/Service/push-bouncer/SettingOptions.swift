import ArgumentParser
import Basics
import Operator

/// Every configuration key as a command-line option, for `--help` and for shell completion.
///
/// The options are never parsed: ``SettingArguments`` has replaced them by `--set` before. ArgumentParser
/// finds a type's options by reflection with `Mirror`, so this type presents one property for each
/// ``Setting``, and no option has to be declared twice.
struct SettingOptions: ParsableArguments, CustomReflectable {
  init() {}

  init(from decoder: any Decoder) throws { _ = try decoder.container(keyedBy: Key.self) }

  var customMirror: Mirror {
    Mirror(
      self,
      children: Configuration.settings.map { setting in
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

extension SettingDeclaration {
  fileprivate var completion: CompletionKind {
    if key.hasSuffix("_file") { return .file() }
    if key == "keys.directory" { return .directory }
    return choices.isEmpty ? .default : .list(choices)
  }
}

/// Makes every configuration key an option of every command.
enum SettingArguments {
  /// `http-rate-limit-per-address`
  static func option(_ key: String) -> String {
    key.replacing(".", with: "-").replacing("_", with: "-")
  }

  /// Rewrites `--http.port 9000`, `--http-port=9000` and similar arguments to `--set http.port=9000`.
  static func rewrite(_ arguments: [String]) -> [String] {
    let names = Dictionary(
      Configuration.settings.flatMap { [("--\($0.key)", $0.key), ("--\(option($0.key))", $0.key)] },
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
        // ``GlobalOptions`` reports an option without a value.
        rewritten += ["--set", key]
        continue
      }
      rewritten += ["--set", "\(key)=\(value)"]
    }
    return rewritten
  }
}
