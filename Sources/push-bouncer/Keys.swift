import ArgumentParser
import Foundation
import Operations
import Registrations
import Sealing
import Server
import Wire

/// `keys ...`: the bouncer's key pairs.
struct Keys: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Makes, lists and retires the key pairs that phones seal their registrations to.",
    subcommands: [Generate.self, List.self, Retire.self, Remove.self, Import.self, RotateStorage.self])
}

/// A key with how much it was used.
private struct KeyReport {
  let key: BouncerKeyFiles.Key
  let usage: E2EERegistrations.KeyUsage?

  var json: JSON {
    [
      "public_key": .string(key.publicKey), "state": .string(key.state.rawValue),
      "created_at": timestamp(key.createdAt), "registrations": .integer(usage?.registrations ?? 0),
      "registrations_30d": .integer(usage?.recentRegistrations ?? 0),
      "last_used_at": timestamp(usage?.lastUsedAt),
    ]
  }

  var line: String {
    let used = usage?.lastUsedAt.formatted(.iso8601) ?? "never"
    return """
      \(key.publicKey)  \(key.state.rawValue)  created \(key.createdAt.formatted(.iso8601)), \
      \(usage?.registrations ?? 0) registrations, \(usage?.recentRegistrations ?? 0) in the last 30 days, last used \(used)
      """
  }
}

extension Configuration {
  /// The key files of the configured folder.
  fileprivate var keyFiles: BouncerKeyFiles { BouncerKeyFiles(directory: keys.directory) }

  /// How many registrations were made with each key.
  fileprivate func usage() async throws -> [String: E2EERegistrations.KeyUsage] {
    let usage = try await Store.with(self) { try await $0.registrations.keyUsage() }
    return Dictionary(usage.map { ($0.publicKey, $0) }, uniquingKeysWith: { first, _ in first })
  }
}

extension Keys {
  struct Generate: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      abstract:
        "Makes a key pair. A running service takes it up within seconds; ship it with the app only after that."
    )

    @OptionGroup var options: GlobalOptions

    func run() async throws {
      let key = try options.load().keyFiles.generate()
      options.show(KeyReport(key: key, usage: nil).json, key.publicKey)
    }
  }

  struct List: AsyncParsableCommand {
    static let configuration = CommandConfiguration(abstract: "Lists the key pairs and how they are used.")

    @OptionGroup var options: GlobalOptions

    func run() async throws {
      let configuration = try options.load()
      let keys = try configuration.keyFiles.list()
      let usage = try await configuration.usage()
      let reports = keys.map { KeyReport(key: $0, usage: usage[$0.publicKey]) }
      options.show(
        ["keys": .array(reports.map(\.json))],
        reports.isEmpty
          ? "no keys: make one with push-bouncer keys generate" : reports.map(\.line).joined(separator: "\n"))
    }
  }

  struct Retire: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "Marks a key as retired: it still opens registrations, but no app should be shipped with it.")

    @OptionGroup var options: GlobalOptions
    @Argument(help: "The public key.") var publicKey: String

    func run() async throws {
      let configuration = try options.load()
      let key = try configuration.keyFiles.retire(publicKey)
      let usage = try await configuration.usage()
      let report = KeyReport(key: key, usage: usage[publicKey])
      options.show(report.json, report.line)
    }
  }

  struct Remove: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "Removes a key pair: phones that seal to it can no longer register.")

    @OptionGroup var options: GlobalOptions
    @Argument(help: "The public key.") var publicKey: String
    @Flag(help: "Removes it even if it was used in the last 30 days.") var force = false

    func run() async throws {
      let configuration = try options.load()
      let files = configuration.keyFiles
      let usage = try await configuration.usage()[publicKey]
      if !force, let usage, usage.recentRegistrations > 0 {
        throw CommandError(
          """
          \(usage.recentRegistrations) registrations were made with this key in the last 30 days, the latest at \
          \(usage.lastUsedAt.formatted(.iso8601)); those phones could not register again. --force removes it all the same
          """)
      }
      let key = try files.remove(publicKey)
      options.show(KeyReport(key: key, usage: usage).json, "removed \(publicKey)")
    }
  }

  struct Import: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "Imports the key pairs from a Zulip bouncer's secrets file.")

    @OptionGroup var options: GlobalOptions
    @Option(help: "The file zulip-secrets.conf, which has push_registration_encryption_keys.")
    var zulipSecrets: String

    func run() async throws {
      let keys = try options.load().keyFiles.importZulipSecrets(zulipSecrets)
      options.show(
        ["keys": .array(keys.map { KeyReport(key: $0, usage: nil).json })],
        keys.map { "imported \($0.publicKey)" }.joined(separator: "\n"))
    }
  }
}
