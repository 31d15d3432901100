import ArgumentParser
import Foundation
import HTTP
import Logging
import Operations
import SQL

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

/// RFC 3339 in UTC, to the second.
func timestamp(_ date: Date?) -> JSON {
  date.map { .string($0.formatted(.iso8601)) } ?? .null
}
