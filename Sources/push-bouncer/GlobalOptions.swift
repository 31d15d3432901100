import ArgumentParser
import Foundation
import Logging
import Operations
import Wire

/// What every command takes.
struct GlobalOptions: ParsableArguments {
  @Option(
    help: ArgumentHelp(
      "The configuration file (default: push-bouncer.yaml, if there is one).", valueName: "file"))
  var config: String?

  @Option(name: .customLong("set"), help: ArgumentHelp("Sets a configuration key.", valueName: "key=value"))
  var settings: [String] = []

  @Flag(help: "Print one JSON document instead of text.")
  var json = false

  func validate() throws {
    for setting in settings where !setting.contains("=") {
      throw ValidationError("--set wants key=value, not \"\(setting)\"")
    }
  }

  /// The configuration, after defaults, file, environment and command line. Warnings go to standard error.
  func load() throws -> Configuration {
    let (configuration, warnings) = try read()
    for warning in warnings { note("warning: \(warning)") }
    return configuration
  }

  /// The configuration, and what deserves a warning.
  func read() throws -> (Configuration, warnings: [String]) {
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
}

/// Lines to standard output, at once: a reader behind a pipe waits for them.
func tell(_ line: String) {
  FileHandle.standardOutput.write(Data("\(line.printable)\n".utf8))
}

/// Lines to standard error: for people, never part of a result.
func note(_ line: String) {
  FileHandle.standardError.write(Data("\(line.printable)\n".utf8))
}

extension String {
  /// The text with an escape, as JSON has it, for what would not be shown but obeyed: characters that control
  /// a terminal or turn the direction of writing, which strangers may have put into a name. Line breaks and tabs stay.
  var printable: String {
    guard unicodeScalars.contains(where: \.isObeyed) else { return self }
    var text = String.UnicodeScalarView()
    for scalar in unicodeScalars {
      guard scalar.isObeyed else {
        text.append(scalar)
        continue
      }
      let digits = String(scalar.value, radix: 16)
      text.append(
        contentsOf: "\\u\(String(repeating: "0", count: max(0, 4 - digits.count)))\(digits)".unicodeScalars)
    }
    return String(text)
  }
}

extension Unicode.Scalar {
  fileprivate var isObeyed: Bool {
    switch value {
    case 0x09, 0x0A: false
    case 0..<0x20, 0x7F..<0xA0, 0x61C, 0x200E, 0x200F, 0x2028...0x202E, 0x2066...0x2069: true
    default: false
    }
  }
}

/// RFC 3339 in UTC, to the second.
func timestamp(_ date: Date?) -> JSON {
  date.map { .string($0.formatted(.iso8601)) } ?? .null
}
