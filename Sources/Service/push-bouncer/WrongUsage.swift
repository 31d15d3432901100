import ArgumentParser
import Basics
import Foundation
import Operator

/// What is wrong with the arguments, what was perhaps meant, and how the command is used.
struct WrongUsage: Error {
  let message: String
  let command: any ParsableCommand.Type

  /// What is wrong if the arguments begin with a command that there is not.
  static func unknownCommand(in arguments: [String]) -> WrongUsage? {
    var command: any ParsableCommand.Type = PushBouncer.self
    var path: [String] = []
    for argument in arguments.first == "help" ? arguments.dropFirst() : arguments[...] {
      let subcommands = command.configuration.subcommands
      if subcommands.isEmpty || argument.hasPrefix("-") || argument == "help" { return nil }
      guard let next = subcommands.first(where: { $0._commandName == argument }) else {
        let names = subcommands.filter { $0.configuration.shouldDisplay }.map { $0._commandName }
        let meant = argument.mostLike(names).map { (path + [$0]).joined(separator: " ") }
        let unknown = (path + [argument]).joined(separator: " ")
        let question = meant.map { ". Did you mean '\($0)'?" } ?? ""
        return WrongUsage(message: "There is no command '\(unknown)'\(question)", command: command)
      }
      command = next
      path.append(argument)
    }
    return nil
  }

  /// The message and the usage, as ArgumentParser writes them.
  var text: String {
    let path = PushBouncer.path(to: command).map { $0._commandName }.joined(separator: " ")
    let usage = PushBouncer.usageString(for: command)
    return "Error: \(message)\nUsage: \(usage)\n  See '\(path) --help' for more information."
  }

  /// ArgumentParser's message, with the option that was perhaps meant if that is a key of the configuration: it knows
  /// those as options of `serve` only.
  static func suggesting(in text: String) -> String {
    guard let match = text.firstMatch(of: /Unknown option '(--[^'=]*)[^']*'(?!\. Did)/) else { return text }
    let keys = Configuration.settings.map(\.key)
    let options = keys.map { "--\($0)" } + keys.map { "--\(SettingArguments.option($0))" }
    guard let meant = String(match.output.1).mostLike(options) else { return text }
    return text.replacingCharacters(in: match.range, with: "\(match.output.0). Did you mean '\(meant)'?")
  }
}

extension ParsableCommand {
  /// The commands from this one to one of its subcommands; empty if it is none.
  fileprivate static func path(to command: any ParsableCommand.Type) -> [any ParsableCommand.Type] {
    if Self.self == command { return [command] }
    let rest = configuration.subcommands.lazy.map { $0.path(to: command) }.first { !$0.isEmpty }
    return rest.map { [Self.self] + $0 } ?? []
  }
}

extension String {
  /// The most similar of some names; nil if none is similar.
  fileprivate func mostLike(_ names: [String]) -> String? {
    guard utf8.count <= 100 else { return nil }
    let most = Swift.max(1, utf8.count / 3)
    return names.map { (name: $0, distance: distance(to: $0)) }.filter { $0.distance <= most }
      .min { $0.distance < $1.distance }?.name
  }

  /// The number of letters to insert, remove or replace (Levenshtein).
  private func distance(to other: String) -> Int {
    let letters = Array(other.utf8)
    var row = Array(0...letters.count)
    for (index, letter) in utf8.enumerated() {
      var diagonal = row[0]
      row[0] = index + 1
      for column in letters.indices {
        let replaced = diagonal + (letters[column] == letter ? 0 : 1)
        diagonal = row[column + 1]
        row[column + 1] = Swift.min(replaced, row[column] + 1, diagonal + 1)
      }
    }
    return row[letters.count]
  }
}
