import ArgumentParser
import Foundation
import HTTP
import Logging
import Operations
import SQL
import Server

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

/// Lets every configuration key be an option of every command.
enum SettingArguments {
  /// `http-rate-limit-per-address`
  static func option(_ key: String) -> String {
    key.replacing(".", with: "-").replacing("_", with: "-")
  }

  /// Turns `--http.port 9000`, `--http-port=9000` and the like into `--set http.port=9000`.
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
        // Left as it was, for the parser to complain about.
        rewritten.append(argument)
        continue
      }
      rewritten += ["--set", "\(key)=\(value)"]
    }
    return rewritten
  }
}

/// The options of every command.
struct GlobalOptions: ParsableArguments {
  @Option(
    help: ArgumentHelp(
      "The configuration file (default: push-bouncer.yaml here, else in /etc/push-bouncer).",
      valueName: "file"))
  var config: String?

  @Option(
    name: .customLong("set"),
    help: ArgumentHelp("Sets a key of the configuration: see help serve.", valueName: "key=value"))
  var settings: [String] = []

  @Flag(help: "Print one JSON document instead of text.")
  var json = false

  func validate() throws {
    for setting in settings where !setting.contains("=") {
      throw ValidationError("--set wants key=value, not \"\(setting)\"")
    }
  }

  /// The configuration, after defaults, file, environment and command line. Warnings go to standard error.
  ///
  /// Root becomes the user whose keys and database these are: what it has named beside them is opened before.
  func load() throws -> Configuration {
    let (configuration, warnings) = try read()
    for warning in warnings { note("warning: \(warning)") }
    return configuration
  }

  /// The configuration, and warnings about it; see ``load()``.
  func read() throws -> (Configuration, warnings: [String]) {
    let read = try readAsCaller()
    let (database, keys) = (read.0.database.url.sqlitePath, read.0.keys.directory)
    try FileOwner.become(ofWaysTo: [database, keys, "\(keys)/storage.key"].compactMap(\.self))
    return read
  }

  /// The same for a command that has nothing to do with the keys and the database.
  func readAsCaller() throws -> (Configuration, warnings: [String]) {
    let overrides = settings.map { setting in
      let parts = setting.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false).map(
        String.init)
      return (parts[0], parts[1])
    }
    return try Configuration.load(
      file: config, environment: ProcessInfo.processInfo.environment,
      overrides: Dictionary(overrides, uniquingKeysWith: { $1 }),
      workingDirectory: FileManager.default.currentDirectoryPath)
  }

  /// Prints a result: the document with `--json`, else the text.
  func show(_ document: JSON, _ text: @autoclosure () -> String) {
    tell(json ? document.text : text())
  }

  /// Prints a result: the document with `--json`, else what `fill` puts on a page.
  func show(_ document: JSON, fill: (inout Page) -> Void) {
    if json { return tell(document.text) }
    var page = Page()
    fill(&page)
    page.print()
  }
}

/// What a command was asked about is not there; told together with where it was looked for.
struct NotFound: Error {
  let sentence: String

  init(_ sentence: String) { self.sentence = sentence }
}

extension Store {
  /// Opens it for one command and closes it afterwards. What is not there is an error that says where it was looked for.
  ///
  /// - Parameters:
  ///   - configuration: what `options` say, if that is known already.
  ///   - making: whether a database or a key that is not there is made.
  static func with<Result>(
    _ options: GlobalOptions, _ configuration: Configuration? = nil, making: Bool = false,
    sqlite: SQLiteDatabase.Options = .init(), _ body: (Store) async throws -> Result
  ) async throws -> Result {
    let configuration = try configuration ?? options.load()
    do {
      return try await with(configuration, making: making, sqlite: sqlite, body)
    } catch let error as NotFound {
      throw CommandError("\(error.sentence)\n\(configuration.whereabouts)")
    } catch let error as BouncerKeyFiles.NotFound {
      throw CommandError("\(error)\n\(configuration.whereabouts)")
    } catch let error as Absence {
      throw CommandError("\(error)\n\(configuration.whereabouts)")
    }
  }
}

extension Configuration {
  /// Which configuration, database and keys a command uses: for whoever does not find there what they look for.
  var whereabouts: String {
    let path = { (path: String) in URL(fileURLWithPath: path).path }
    let file = self.file.map(path) ?? "none (defaults and environment)"
    let database = self.database.url.sqlitePath.map { "sqlite:\(path($0))" } ?? "\(self.database.url)"
    return """
      Configuration: \(file)
      Database: \(database)
      Keys: \(path(keys.directory))
      """
  }
}
