import ArgumentParser
import Basics
import Foundation
import HTTP
import Operator
import Platform

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
