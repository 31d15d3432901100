import ArgumentParser
import Basics
import Foundation
import HTTP
import Logging
import Operator
import Platform
import SQL
import Server

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
      if Configuration.settings.contains(where: { $0.key == setting }) {
        throw ValidationError("--\(setting) needs a value")
      }
      throw ValidationError("--set must be key=value, not \"\(setting)\"")
    }
  }

  /// Loads the configuration from defaults, file, environment and command line, and prints warnings to
  /// standard error.
  ///
  /// If this process is root's, it becomes the user who owns the keys and the database. Other files that root
  /// has named must be opened before.
  ///
  /// - Parameter isNeeded: false for a command that works without a file too: one that nobody has named and
  ///   this user may not read is left out.
  func load(isNeeded: Bool = true) throws -> Configuration {
    let (configuration, warnings) = try read(isNeeded: isNeeded)
    for warning in warnings { printError("warning: \(warning)") }
    return configuration
  }

  /// Loads the configuration and its warnings, without printing these; see ``load()``.
  func read(isNeeded: Bool = true) throws -> (Configuration, warnings: [String]) {
    let read = try readAsCaller(isNeeded: isNeeded)
    try FileOwner.become(ofWaysTo: read.0.ownFiles)
    return read
  }

  /// Loads them without changing the user, for a command that uses neither the keys nor the database.
  func readAsCaller(isNeeded: Bool = true) throws -> (Configuration, warnings: [String]) {
    let overrides = settings.map { setting in
      let parts = setting.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false).map(
        String.init)
      return (parts[0], parts[1])
    }
    return try Configuration.load(
      file: config, isNeeded: isNeeded,
      environment: ProcessInfo.processInfo.environment,
      overrides: Dictionary(overrides, uniquingKeysWith: { $1 }),
      workingDirectory: FileManager.default.currentDirectoryPath)
  }

  /// Prints a result: the document with `--json`, otherwise the text.
  func show<Result>(_ result: Result, _ document: [JSONMember<Result>], _ text: @autoclosure () -> String) {
    printLine(json ? JSON.object(document.object(result)).text : text())
  }

  /// Prints a result: the document with `--json`, otherwise the page that `fill` writes.
  func show<Result>(_ result: Result, _ document: [JSONMember<Result>], fill: (inout Page) -> Void) {
    if json { return printLine(JSON.object(document.object(result)).text) }
    var page = Page()
    fill(&page)
    page.print()
  }
}

/// What a command was asked about does not exist. The error also names the configuration, database and keys
/// that were used.
struct NotFound: Error, CustomStringConvertible {
  let description: String

  init(_ description: String) { self.description = description }
}

extension Store {
  /// Opens the store for one command, and closes it afterwards. A missing database or key is an error that
  /// names the place that was searched.
  ///
  /// - Parameters:
  ///   - configuration: the configuration from `options`, if it has been loaded already.
  ///   - making: whether to create a missing database or key.
  static func with<Result>(
    _ options: GlobalOptions, _ configuration: Configuration? = nil, making: Bool = false,
    sqlite: SQLiteDatabase.Options = .init(), _ body: (Store) async throws -> Result
  ) async throws -> Result {
    let configuration = try configuration ?? options.load()
    return try await configuration.locating {
      try await with(configuration, making: making, sqlite: sqlite, body)
    }
  }
}

extension Configuration {
  /// Adds to an error about something that does not exist where it was looked for.
  func locating<Result>(_ body: () async throws -> Result) async throws -> Result {
    do {
      return try await body()
    } catch  where error is NotFound || error is BouncerKeyFiles.NotFound || error is Store.MissingStoreError
    {
      throw Fault("\(error)\n\(whereabouts)")
    }
  }

  /// The files of the service's user: what a command run by root accesses as that user.
  var ownFiles: [String] {
    [database.url.sqlitePath, keys.directory, "\(keys.directory)/storage.key"].compactMap(\.self)
  }

  /// The configuration, database and keys that a command uses, for a user who misses something there.
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
