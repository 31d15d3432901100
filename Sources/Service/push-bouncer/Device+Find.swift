import ArgumentParser
import Basics
import Delivery
import Foundation
import HTTP
import Operator
import Platform
import Providers
import Registrations
import SQL
import Sealing
import Server

extension Device {
  struct List: AsyncParsableCommand, PrintsDocument {
    static let configuration = CommandConfiguration(
      abstract: "Lists the devices of a chat server or of one of its realms.")

    @OptionGroup var options: GlobalOptions
    @Option(help: "The chat server: its hostname or org id.") var server: String
    @Option(help: "One of its realms: its host or UUID.") var realm: String?
    @Option(help: ArgumentHelp("The maximum number of devices to show.", valueName: "n")) var limit = 100

    func validate() throws {
      guard (1...100_000).contains(limit) else {
        throw ValidationError("--limit must be a number from 1 to 100000")
      }
    }

    static var documents: [JSONDocument] { found }

    func run() async throws {
      try await search(.server(server, realm: realm), limit: limit, options, list)
    }
  }

  struct Find: AsyncParsableCommand, PrintsDocument {
    static let configuration = CommandConfiguration(
      abstract: "Finds a user's or a phone's registrations, and says what is known of each.",
      discussion: """
        TEXT is a token's id (base64, as in zerver_device, or 16 hex digits); the 8 hex digits that the log shows of a \
        token; the number or UUID of an old app's user, with the server after a blank if you like; a Nextcloud device \
        identifier; a realm's or server's UUID or hostname; or a name such as e2ee:12. A token itself, or a Web Push \
        subscription, is a secret: it is read from a file or from standard input (--token-file).
        """)

    @OptionGroup var options: GlobalOptions
    @Argument(help: "What to look for.") var text: String?
    @Option(help: "The chat server of --user: its hostname or org id.") var server: String?
    @Option(help: "A user of old apps: a number or a UUID.") var user: String?
    @Option(help: ArgumentHelp("A token's id.", valueName: "id")) var tokenID: String?
    @Option(help: ArgumentHelp("A file that holds a token; - is standard input.", valueName: "file"))
    var tokenFile: String?
    @Option(help: "A Nextcloud device identifier, in base64 or hexadecimal.") var identifier: String?

    func validate() throws {
      guard [text, user, tokenID, tokenFile, identifier].count(where: { $0 != nil }) == 1 else {
        throw ValidationError(
          "give one thing to look for: a text, --user, --token-id, --token-file or --identifier")
      }
      guard server == nil || user != nil else {
        throw ValidationError("--server needs --user; device list shows all devices of a server")
      }
    }

    static var documents: [JSONDocument] { found }

    func run() async throws {
      try await search(try query(), limit: 100, options, describe)
    }

    private func query() throws -> DeviceQuery {
      if let user {
        guard Int64(user) != nil || UUID(uuidString: user) != nil else {
          throw ValidationError("--user must be a number or a UUID")
        }
        return .user(user, server: server)
      }
      if let tokenID {
        guard case .tokenID(let id)? = try? DeviceQuery(tokenID) else {
          throw ValidationError("--token-id must be 8 bytes: 12 characters of base64, or 16 hex digits")
        }
        return .tokenID(id)
      }
      if let identifier {
        guard let bytes = DeviceQuery.identifier(identifier) else {
          throw ValidationError("--identifier must be 64 bytes: 88 characters of base64, or 128 hex digits")
        }
        return .identifier(bytes)
      }
      if let tokenFile { return .token(try SecretFile.read(tokenFile, "token")) }
      do { return try DeviceQuery(text ?? "") } catch { throw Fault(error.description) }
    }

  }

  struct Show: AsyncParsableCommand, PrintsDocument {
    static let configuration = CommandConfiguration(
      abstract: "Shows one registration: what it is, its state, and what to do.")

    @OptionGroup var options: GlobalOptions
    @Argument(
      help: """
        Its name, as list and find show it: e2ee:12, legacy:7, nextcloud:3, nextcloud_webpush:5 or webpush_gateway:9.
        """)
    var name: String

    static var documents: [JSONDocument] { found }

    func run() async throws {
      guard let query = DeviceQuery.row(name) else {
        throw ValidationError("\(name) is not a name such as e2ee:12")
      }
      try await search(query, limit: 1, options, describe)
    }
  }
}

private var found: [JSONDocument] { .of(document, note: "Exits 1 if no device is found.") }

private var document: [JSONMember<DeviceSearch.SearchResult>] {
  [
    .list("devices", of: FoundDevice.members(for: .operator)) { $0.devices },
    .member("more", "whether there are more than were asked for") { $0.isCut },
    .list("servers", "the chat servers that the search has found", of: RemoteServer.members) { $0.servers },
    .member("advice", "what to do if nothing was found") { $0.advice },
  ]
}

/// Prints the result of a search, or an explanation if nothing was found.
private func search(
  _ query: DeviceQuery, limit: Int, _ options: GlobalOptions,
  _ fill: (inout Page, DeviceSearch.SearchResult) -> Void
) async throws {
  let answer = try await Store.with(options) { store in
    try await DeviceSearch(database: store.database, storageKey: store.storageKey).find(query, limit: limit)
  }
  options.show(answer, document) { page in
    guard answer.devices.isEmpty else { return fill(&page, answer) }
    page.add(answer.advice ?? "")
    guard !answer.servers.isEmpty else { return }
    page.add("Chat servers: \(answer.servers.map(\.hostname).joined(separator: ", "))")
  }
  if answer.devices.isEmpty { throw ExitCode.failure }
}

/// Prints one line for each device.
private func list(_ page: inout Page, _ answer: DeviceSearch.SearchResult) {
  page.add(
    Phrase.count(answer.devices.count, "device") + (answer.isCut ? ", and more (--limit)" : ""), .heading)
  page.add()
  page.add(answer.devices.table(FoundDevice.columns))
}

/// Prints all facts about each device.
private func describe(_ page: inout Page, _ answer: DeviceSearch.SearchResult) {
  if answer.isCut { page.add("The first \(answer.devices.count):", .heading) }
  for device in answer.devices {
    page.add("\(device.name): \(device.state.words)", device.state.tone)
    page.add(device.advice)
    var table = Table("", "")
    for (name, fact) in device.facts {
      if let text = fact.text { table.add(.init(name, .faint), .init(text)) }
    }
    page.add(table)
    page.add()
  }
}

extension FoundDevice.State {
  fileprivate var tone: Terminal.Tone {
    switch self {
    case .working: .good
    case .unused, .waiting: .doubtful
    case .failing, .ended, .switchedOff: .bad
    }
  }
}

extension FoundDevice.Fact {
  /// The text of the fact; nil if it is left out.
  fileprivate var text: String? {
    func time(_ date: Date) -> String { "\(date.formatted(.iso8601)), \(Phrase.age(date))" }
    return switch self {
    case .server(let place): place.host
    case .text(let text, let code): [text, code].filter { !$0.isEmpty }.joined(separator: " ")
    case .time(let date, let note): date.map { time($0) + note } ?? "none known"
    case .failure(let failure): "\(failure.reason), \(time(failure.at))"
    case .waiting(0, _): nil
    case .waiting(let count, let since):
      Phrase.count(count, "notification") + (since.map { ", since \(time($0))" } ?? "")
    }
  }
}

extension FoundDevice {
  fileprivate static var columns: [ReportColumn<FoundDevice>] {
    [
      .cell("DEVICE") { .init($0.name) }, .cell("STATE") { .init($0.state.words, $0.state.tone) },
      .cell("REALM") { .optional($0.realm?.host) }, .cell("USER") { .optional($0.user) },
      .cell("APP") { device in
        let pushService = device.provider == "webpush" ? device.target : nil
        return .init([device.app, device.provider, pushService].compactMap(\.self).joined(separator: " "))
      },
      .cell("TOKEN") { .optional($0.fingerprint) },
      .cell("REGISTERED") { .init(Phrase.age($0.registeredAt)) },
      .cell("LAST SUCCESS") { .init(Phrase.age($0.deliveredAt)) },
      .cell("LAST FAILURE") { device in .optional(device.failure.map { "\($0.reason) \(Phrase.age($0.at))" })
      },
      .cell("WAITING", isNumber: true) { .number($0.waiting) },
    ]
  }
}
