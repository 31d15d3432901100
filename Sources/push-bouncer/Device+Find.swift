import ArgumentParser
import Foundation
import HTTP
import Operations
import Registrations
import Sealing
import Server

extension Device {
  struct List: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "Lists the devices of a chat server or of one of its realms.")

    @OptionGroup var options: GlobalOptions
    @Option(help: "The chat server: its hostname or org id.") var server: String
    @Option(help: "One of its realms: its host or UUID.") var realm: String?
    @Option(help: "The most devices of each kind to show.") var limit = 100

    func validate() throws {
      guard (1...100_000).contains(limit) else {
        throw ValidationError("--limit wants a number from 1 to 100000")
      }
    }

    func run() async throws {
      try await search(.server(server, realm: realm), limit: limit, options) { $0.list() }
    }
  }

  struct Find: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "Finds a user's or a phone's registrations, and says what is known of each.",
      discussion: """
        By what it is known by: a token's id (base64, as in zerver_device, or 16 hex digits), the 8 hex digits that \
        the log shows of a token, the number or UUID of a user of an old app (and the server after a blank), a \
        Nextcloud device identifier, a realm's or server's UUID or hostname, or a name like e2ee:12. A token itself, \
        also one that is a Web Push subscription, is a secret and is read from a file or from standard input.
        """)

    @OptionGroup var options: GlobalOptions
    @Argument(help: "What to look for.") var text: String?
    @Option(help: "At this chat server: a hostname or an org id.") var server: String?
    @Option(help: "A user of old apps: a number or a UUID.") var user: String?
    @Option(help: "A token's id.") var tokenID: String?
    @Option(help: ArgumentHelp("A file that holds a token; - is standard input.", valueName: "file"))
    var tokenFile: String?
    @Option(help: "A Nextcloud device identifier, in base64 or hexadecimal.") var identifier: String?

    func validate() throws {
      guard [text, user, tokenID, tokenFile, identifier].count(where: { $0 != nil }) == 1 else {
        throw ValidationError(
          "give one thing to look for: a text, --user, --token-id, --token-file or --identifier")
      }
      guard server == nil || user != nil else {
        throw ValidationError("--server goes with --user; else see device list")
      }
    }

    func run() async throws {
      try await search(try query(), limit: 100, options) { $0.whole() }
    }

    private func query() throws -> DeviceQuery {
      if let user {
        guard Int64(user) != nil || UUID(uuidString: user) != nil else {
          throw ValidationError("--user wants a number or a UUID")
        }
        return .user(user, server: server)
      }
      if let tokenID {
        guard case .tokenID(let id)? = try? DeviceQuery(tokenID) else {
          throw ValidationError("--token-id wants 8 bytes: 12 characters of base64, or 16 hex digits")
        }
        return .tokenID(id)
      }
      if let identifier {
        guard let bytes = DeviceQuery.identifier(identifier) else {
          throw ValidationError("--identifier wants 64 bytes: 88 characters of base64, or 128 hex digits")
        }
        return .identifier(bytes)
      }
      if let tokenFile {
        return .token(try FileOwner.acting(onWayTo: tokenFile) { try Self.token(in: tokenFile) })
      }
      do { return try DeviceQuery(text ?? "") } catch { throw CommandError(error.description) }
    }

    /// Never shown: neither it nor what is read in its place.
    private static func token(in file: String) throws -> String {
      let handle = file == "-" ? FileHandle.standardInput : FileHandle(forReadingAtPath: file)
      guard let data = try? handle?.read(upToCount: 16_384) else {
        throw CommandError("\(file) cannot be read")
      }
      let text = String(decoding: data, as: UTF8.self).trimmingCharacters(in: .whitespacesAndNewlines)
      guard !text.isEmpty, text.utf8.count <= 8192 else {
        throw CommandError("there is no token in \(file == "-" ? "standard input" : file)")
      }
      return text
    }
  }

  struct Show: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "Shows one registration: what it is, how it fares and what to do.")

    @OptionGroup var options: GlobalOptions
    @Argument(
      help: "Its name, as list and find show it: e2ee:12, legacy:7, nextcloud:3 or nextcloudWebPush:5.")
    var name: String

    func run() async throws {
      guard let query = DeviceQuery.row(name) else {
        throw ValidationError("\(name) is no name like e2ee:12")
      }
      try await search(query, limit: 1, options) { $0.whole() }
    }
  }
}

/// Prints what was found; who finds nothing is told what that means.
private func search(
  _ query: DeviceQuery, limit: Int, _ options: GlobalOptions, _ page: (DeviceSearch.Answer) -> Page
) async throws {
  let answer = try await Store.with(options) { store in
    try await DeviceSearch(database: store.database, storageKey: store.storageKey).find(query, limit: limit)
  }
  if options.json { options.show(answer.json, "") } else { page(answer).print() }
  if answer.devices.isEmpty { throw ExitCode.failure }
}

extension DeviceSearch.Answer {
  fileprivate var json: JSON {
    [
      "devices": .array(devices.map(\.json)), "more": .bool(isCut),
      "servers": .array(servers.map { ["org_id": .string($0.uuid), "hostname": .string($0.hostname)] }),
      "advice": .optional(advice),
    ]
  }

  /// A line each.
  fileprivate func list() -> Page {
    var page = Page()
    guard !devices.isEmpty else { return nothing() }
    page.add(Phrase.count(devices.count, "device") + (isCut ? ", and more (--limit)" : ""), .heading)
    page.add()
    var table = Table(
      "DEVICE", "STATE", "REALM", "USER", "APP", "TOKEN", "REGISTERED", "LAST SUCCESS", "LAST FAILURE",
      .number("WAITING"))
    for device in devices {
      table.add(
        .init(device.name), .init(device.state.rawValue, device.state.tone), .optional(device.realm?.host),
        .optional(device.user),
        .init([device.app, device.provider, device.pushService].compactMap(\.self).joined(separator: " ")),
        .optional(device.fingerprint),
        .init(Phrase.age(device.registeredAt)), .init(Phrase.age(device.deliveredAt)),
        .optional(device.failure.map { "\($0.reason) \(Phrase.age($0.at))" }),
        .init(Phrase.number(device.waiting)))
    }
    page.add(table)
    return page
  }

  /// A block each.
  fileprivate func whole() -> Page {
    guard !devices.isEmpty else { return nothing() }
    var page = Page()
    if isCut { page.add("The first \(devices.count):", .heading) }
    for device in devices {
      page.add(
        "\(device.name): \(device.state.rawValue)", device.state.tone == .plain ? .heading : device.state.tone
      )
      page.add(device.advice)
      var table = Table("", "")
      for (name, value) in device.rows { table.add(.init(name, .faint), .init(value)) }
      page.add(table)
      page.add()
    }
    return page
  }

  private func nothing() -> Page {
    var page = Page()
    page.add(advice ?? "")
    if !servers.isEmpty { page.add("Chat servers: \(servers.map(\.hostname).joined(separator: ", "))") }
    return page
  }
}

extension Table.Cell {
  fileprivate static func optional(_ text: String?) -> Self { text.map { .init($0) } ?? .none }
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

extension FoundDevice {
  /// The host of its push service, if it has one.
  fileprivate var pushService: String? { provider == "webpush" ? target : nil }

  fileprivate var rows: [(String, String)] {
    func time(_ date: Date) -> String { "\(date.formatted(.iso8601)), \(Phrase.age(date))" }
    func failure(_ failure: Failure) -> String { "\(failure.reason), \(time(failure.at))" }
    let rows: [(String, String?)] = [
      ("server", server?.host), ("realm", realm.map { "\($0.host) \($0.uuid)" }), ("user", user),
      ("app", "\(app ?? "not told") (\(provider)\(target.map { " to \($0)" } ?? ""))"),
      ("token id", tokenID?.base64),
      ("token in the log", fingerprint), ("device identifier", identifier), ("bouncer key", bouncerKey),
      ("registered", time(registeredAt)), ("ended", endedAt.map(time)),
      ("last success", deliveredAt.map { "\(time($0)) (the first of that day)" } ?? "none known"),
      ("last failure", self.failure.map(failure)), ("called dead, not believed yet", held.map(failure)),
      (
        "waiting",
        waiting == 0
          ? nil : Phrase.count(waiting, "notification") + (waitingSince.map { ", since \(time($0))" } ?? "")
      ),
    ]
    return rows.compactMap { name, value in value.map { (name, $0) } }
  }

  fileprivate var json: JSON {
    func failure(_ failure: Failure?) -> JSON {
      failure.map {
        let explanation = Explanation.of($0.reason)
        return [
          "reason": .string($0.reason), "at": timestamp($0.at), "meaning": .string(explanation.meaning),
          "advice": .string(explanation.advice),
        ]
      } ?? .null
    }
    func place(_ place: Place?) -> JSON {
      place.map {
        ["uuid": .string($0.uuid), "host": .string($0.host), "deactivated": .bool($0.isDeactivated)]
      } ?? .null
    }
    return [
      "name": .string(name), "state": .string(state.rawValue), "advice": .string(advice),
      "provider": .string(provider),
      "app": .optional(app), "target": .optional(target), "token_id": .optional(tokenID?.base64),
      "token_fingerprint": .optional(fingerprint), "bouncer_key": .optional(bouncerKey),
      "server": place(server),
      "realm": place(realm), "user": .optional(user), "device_identifier": .optional(identifier),
      "registered_at": timestamp(registeredAt), "ended_at": timestamp(endedAt),
      "last_success_at": timestamp(deliveredAt),
      "last_failure": failure(self.failure), "held_death": failure(held), "waiting": .integer(waiting),
      "waiting_since": timestamp(waitingSince),
    ]
  }
}
