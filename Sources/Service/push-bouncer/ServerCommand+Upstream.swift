import ArgumentParser
import Basics
import Foundation
import HTTP
import Operator
import Platform
import Registrations
import SQL
import Server
import ZulipBouncer

/// `server upstream ...`: chat servers' links to the upstream bouncer.
extension ServerCommand {
  struct Upstream: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      abstract:
        "Passes a chat server's notifications for the store's app on to the upstream bouncer.",
      discussion: """
        A chat server has one address for push notifications. With an upstream link, phones with your app are served \
        here, and phones with the store's app by the upstream bouncer (upstream.url). The server must be registered there \
        with the same zulip_org_id and zulip_org_key. Documentation/GettingStarted/BesideTheStore.md shows each step.
        """,
      subcommands: [Enable.self, Disable.self, Show.self])
  }
}

extension ServerCommand.Upstream {
  struct Enable: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "Passes on, from now on, what is not for your app.",
      discussion: """
        The server's key is kept, sealed, from its next call on: the upstream bouncer needs it. Run the command again \
        after a wrong key was corrected there, or a wrong Firebase project here: it then takes the key from the server's \
        next call, sends what waits with it at once, and tries old apps' FCM tokens here before passing them on.
        """)

    @OptionGroup var options: GlobalOptions
    @Argument(help: "The server's zulip_org_id or hostname.") var server: String

    func run() async throws {
      let configuration = try options.load()
      guard let host = configuration.upstream.authority else {
        throw Fault(
          key: "upstream.url", "is not set",
          advice: "set it to the address of the upstream bouncer, such as https://push.zulipchat.com")
      }
      let found = try await Store.with(options, configuration) { store in
        let found = try await store.find(server)
        try await store.upstreamLinks.enable(found.id)
        return found
      }
      // Waits until a running service must have noticed the change.
      try await Task.sleep(for: RemoteServers.propagation)
      options.show(
        .object(ServerCommand.Upstream.json(found, isEnabled: true)),
        "\(found.hostname): what is not for your app goes to \(host) from its next call on")
    }
  }

  struct Disable: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "Stops passing notifications on, and forgets the server's key.",
      discussion: """
        The devices that are registered with the upstream bouncer get nothing any more; their chat server learns that with \
        its next notification. Registrations whose end it has not learned of come back with enable.
        """)

    @OptionGroup var options: GlobalOptions
    @Argument(help: "The server's zulip_org_id or hostname.") var server: String

    func run() async throws {
      let (found, ended) = try await Store.with(options) { store in
        let found = try await store.find(server)
        return (found, try await store.upstreamLinks.disable(found.id))
      }
      try await Task.sleep(for: RemoteServers.propagation)
      var json = ServerCommand.Upstream.json(found, isEnabled: false)
      json["ended"] = .integer(Int64(ended))
      options.show(
        .object(json), "\(found.hostname): nothing is passed on; \(Phrase.count(ended, "registration")) ended"
      )
    }
  }

  struct Show: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      abstract:
        "Shows whether a chat server has a link to the upstream bouncer, and whether that works.")

    @OptionGroup var options: GlobalOptions
    @Argument(help: "The server's zulip_org_id or hostname.") var server: String

    func run() async throws {
      let configuration = try options.load()
      let (found, report) = try await Store.with(options, configuration) { store in
        let found = try await store.find(server)
        return (found, try await store.link(of: found.id, configuration))
      }
      var json = ServerCommand.Upstream.json(found, isEnabled: report != nil)
      guard let report else {
        return options.show(
          .object(json),
          "\(found.hostname): nothing is passed on; push-bouncer server upstream enable \(found.hostname) changes that"
        )
      }
      for member in report.json.members { json[member.name.text] = member.value }
      options.show(.object(json)) { page in
        page.add("\(found.hostname), at \(report.host ?? "the upstream bouncer")", .heading)
        for sentence in report.fact(at: Date()).sentences {
          page.add("  \(sentence.text)", sentence.isBad ? .bad : .plain)
        }
      }
    }
  }

  fileprivate static func json(_ server: RemoteServer, isEnabled: Bool) -> JSON.Object {
    var json = server.json
    json["enabled"] = .bool(isEnabled)
    return json
  }
}

extension Store {
  /// What there is to say of a server's upstream link; nil if it has none.
  func link(of server: Int64, _ configuration: Configuration) async throws -> UpstreamReport? {
    try await UpstreamReport(of: server, upstreamLinks, at: configuration.upstream.authority)
  }
}

extension ServerCommand {
  static func linkColumn(_ link: UpstreamReport?) -> ReportColumn<RemoteServers.Summary> {
    .member("upstream") { _ in link.map { .object($0.json) } ?? .null }
  }
}

extension Page {
  /// Adds the section about a server's upstream link.
  mutating func add(_ link: UpstreamReport) {
    let fact = link.fact(at: Date())
    add(fact.title, .heading)
    for sentence in fact.sentences { add(sentence.text, sentence.isBad ? .bad : .plain) }
    add()
  }
}

extension UpstreamReport {
  /// For `--json`.
  fileprivate var json: JSON.Object {
    [
      "host": .optional(host), "enabled_at": .time(link.enabledAt), "has_key": .bool(link.key != nil),
      "registrations": .integer(encrypted), "legacy_registrations": .integer(legacy),
      "last_report_at": .time(link.reportedAt), "last_report_failure": .optional(link.failure),
      "sending_refused_at": .time(link.refusedAt),
    ]
  }
}
