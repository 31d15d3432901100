import ArgumentParser
import Basics
import Foundation
import HTTP
import Operator
import Platform
import Registrations
import SQL
import Sealing
import Server

/// `keys ...`: the bouncer's key pairs.
struct Keys: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Makes, lists and retires the key pairs that phones seal their registrations to.",
    subcommands: [Generate.self, List.self, Retire.self, Remove.self, Import.self, RotateStorage.self])
}

/// A key with the number of registrations that use it.
private struct KeyReport {
  let key: BouncerKeyFiles.Key
  let usage: RegistrationStore.KeyUsage?

  static var columns: [ReportColumn<KeyReport>] {
    [
      .text("public_key", "PUBLIC KEY", "32 bytes in base64") { $0.key.publicKey },
      .text(
        "state", "STATE", shape: .oneOf(BouncerKeyring.Entry.State.self),
        tone: { $0.key.state == .active ? .good : .faint }
      ) { $0.key.state.rawValue },
      .age("created_at", "CREATED") { $0.key.createdAt },
      .number("registrations", "REGISTRATIONS", "those that were sealed to this key") {
        $0.usage?.registrations ?? 0
      },
      .number("registrations_30d", "IN 30 DAYS", "those of the last 30 days") {
        $0.usage?.recentRegistrations ?? 0
      },
      .age("last_used_at", "LAST USED", "the latest registration with it") { $0.usage?.lastUsedAt },
    ]
  }

  static var members: [JSONMember<KeyReport>] { columns.members() }
  static var list: [JSONMember<[KeyReport]>] { [.list("keys", of: members) { $0 }] }
}

extension Keys.Generate: PrintsDocument { static var documents: [JSONDocument] { .of(KeyReport.members) } }
extension Keys.Retire: PrintsDocument { static var documents: [JSONDocument] { .of(KeyReport.members) } }
extension Keys.Remove: PrintsDocument { static var documents: [JSONDocument] { .of(KeyReport.members) } }
extension Keys.List: PrintsDocument { static var documents: [JSONDocument] { .of(KeyReport.list) } }
extension Keys.Import: PrintsDocument { static var documents: [JSONDocument] { .of(KeyReport.list) } }

extension Configuration {
  fileprivate var keyFiles: BouncerKeyFiles { BouncerKeyFiles(directory: keys.directory) }
}

extension Store {
  /// The number of registrations for each bouncer key, by its public key.
  fileprivate func usage() async throws -> [String: RegistrationStore.KeyUsage] {
    Dictionary(try await registrations.keyUsage().map { ($0.publicKey, $0) }) { first, _ in first }
  }
}

extension GlobalOptions {
  /// The key files of an existing folder. Creating a key in a folder that no service reads would mislead the
  /// operator.
  fileprivate func keyFiles() throws -> BouncerKeyFiles {
    let configuration = try load()
    guard FileManager.default.fileExists(atPath: configuration.keys.directory) else {
      throw Fault(
        """
        there is no folder \(configuration.keys.directory). Run this where the service runs or name its configuration \
        with --config; push-bouncer init makes a new one
        \(configuration.whereabouts)
        """)
    }
    return configuration.keyFiles
  }
}

extension Keys {
  struct Generate: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      abstract:
        "Makes a key pair. A running service uses it within seconds; ship it in an app only after that."
    )

    @OptionGroup var options: GlobalOptions

    func run() async throws {
      let key = try options.keyFiles().generate()
      options.show(KeyReport(key: key, usage: nil), KeyReport.members, key.publicKey)
    }
  }

  struct List: AsyncParsableCommand {
    static let configuration = CommandConfiguration(abstract: "Lists the key pairs and how they are used.")

    @OptionGroup var options: GlobalOptions

    func run() async throws {
      let configuration = try options.load()
      let reports = try await Store.with(options, configuration) { store in
        let usage = try await store.usage()
        return try configuration.keyFiles.list().map { KeyReport(key: $0, usage: usage[$0.publicKey]) }
      }
      try options.show(
        reports, KeyReport.list, KeyReport.columns, none: "no keys: make one with push-bouncer keys generate")
    }
  }

  struct Retire: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "Marks a key as retired: it still opens registrations, but no app should be shipped with it.")

    @OptionGroup var options: GlobalOptions
    @Argument(help: "The public key.") var publicKey: String

    func run() async throws {
      let configuration = try options.load()
      let report = try await Store.with(options, configuration) { store in
        let usage = try await store.usage()
        return KeyReport(key: try configuration.keyFiles.retire(publicKey), usage: usage[publicKey])
      }
      options.show(report, KeyReport.members) { $0.add([report].table(KeyReport.columns)) }
    }
  }

  struct Remove: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "Removes a key pair: phones that seal to it can no longer register.")

    @OptionGroup var options: GlobalOptions
    @Argument(help: "The public key.") var publicKey: String
    @Flag(help: "Removes it even if it was used in the last 30 days. The last active key is never removed.")
    var force =
      false

    func run() async throws {
      let configuration = try options.load()
      let report = try await Store.with(options, configuration) { store in
        let usage = try await store.usage()[publicKey]
        if !force, let usage, usage.recentRegistrations > 0 {
          let count = Phrase.count(usage.recentRegistrations, "registration was", "registrations were")
          throw Fault(
            """
            \(count) made with this key in the last 30 days, the latest \(Phrase.age(usage.lastUsedAt)); those phones \
            could not register again. --force removes it all the same
            """)
        }
        return KeyReport(key: try configuration.keyFiles.remove(publicKey), usage: usage)
      }
      options.show(report, KeyReport.members, "removed \(publicKey)")
    }
  }

  struct Import: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "Imports the key pairs from a Zulip bouncer's secrets file.")

    @OptionGroup var options: GlobalOptions
    @Option(
      help: ArgumentHelp(
        "The file zulip-secrets.conf, which has push_registration_encryption_keys.", valueName: "file"))
    var zulipSecrets: String

    func run() async throws {
      // Read before root becomes the service's user, who may not be allowed to read this file.
      let secrets = String(
        decoding: try PrivateFile.contents(of: zulipSecrets, atMost: 4 << 20), as: UTF8.self)
      let keys = try options.keyFiles().importZulipSecrets(secrets, of: zulipSecrets)
      options.show(
        keys.map { KeyReport(key: $0, usage: nil) }, KeyReport.list,
        keys.map { "imported \($0.publicKey)" }.joined(separator: "\n"))
    }
  }
}

extension Keys {
  struct RotateStorage: AsyncParsableCommand, PrintsDocument {
    static let configuration = CommandConfiguration(
      abstract:
        "Replaces storage.key, and seals everything with the new key, while the service is stopped.",
      discussion: """
        It does not begin while another process uses the database, and no process can start until it is done. If systemd \
        holds the service's socket, calls wait meanwhile. The command may be stopped or killed at any moment: run it \
        again, and it continues. Until it is done, the new key is in storage.key.new. The key for hashes does not change. \
        Back up storage.key afterwards.
        """)

    @OptionGroup var options: GlobalOptions
    @Option(
      help: ArgumentHelp("How long to wait for other processes to end, such as 5m.", valueName: "duration"))
    var wait = "60s"
    @Option(help: .hidden) var silence = 15

    static var documents: [JSONDocument] { .of(document) }

    private static var document: [JSONMember<Resealing.Count>] {
      [
        .member("resealed", "values that are sealed with the new key") { $0.resealed },
        .member("unreadable", "values that open with neither key, and were left") { $0.unreadable },
      ]
    }

    func run() async throws {
      guard let timeout = Quantity.duration(wait) else {
        throw ValidationError("--wait must be a duration, like 5m")
      }
      let configuration = try options.load()
      let count = try await configuration.locating {
        try await Store.rotateStorageKey(configuration, timeout: timeout, silence: .seconds(silence)) {
          printError($0)
        }
      }
      let rest =
        count.unreadable == 0
        ? ""
        : "; \(Phrase.count(count.unreadable, "value opens", "values open")) with neither key and stayed as before"
      options.show(
        count, Self.document,
        """
        storage.key is replaced: \(Phrase.count(count.resealed, "value")) sealed with the new key\(rest). Back it up, and \
        copy it to machines that have a Keys folder of their own
        """)
    }
  }
}
