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
  struct Enable: AsyncParsableCommand, PrintsDocument {
    static let configuration = CommandConfiguration(
      abstract: "Passes on, from now on, what is not for your app.",
      discussion: """
        The server's key is kept, sealed, from its next call on: the upstream bouncer needs it. Run the command again \
        after a wrong key was corrected there, or a wrong Firebase project here: it then takes the key from the server's \
        next call, sends what waits with it at once, and tries old apps' FCM tokens here before passing them on.
        """)

    @OptionGroup var options: GlobalOptions
    @Argument(help: "The server's zulip_org_id or hostname.") var server: String

    static var documents: [JSONDocument] { .of(members) }

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
        (found, true), members,
        "\(found.hostname): what is not for your app goes to \(host) from its next call on")
    }
  }

  struct Disable: AsyncParsableCommand, PrintsDocument {
    static let configuration = CommandConfiguration(
      abstract: "Stops passing notifications on, and forgets the server's key.",
      discussion: """
        The devices that are registered with the upstream bouncer get nothing any more; their chat server learns that with \
        its next notification. Registrations whose end it has not learned of come back with enable.
        """)

    @OptionGroup var options: GlobalOptions
    @Argument(help: "The server's zulip_org_id or hostname.") var server: String

    static var documents: [JSONDocument] { .of(document) }

    private static var document: [JSONMember<(state: LinkState, ended: Int)>] {
      members.of { $0.state } + [
        .member("ended", "registrations with the upstream bouncer that have ended") { $0.ended }
      ]
    }

    func run() async throws {
      let (found, ended) = try await Store.with(options) { store in
        let found = try await store.find(server)
        return (found, try await store.upstreamLinks.disable(found.id))
      }
      try await Task.sleep(for: RemoteServers.propagation)
      options.show(
        ((found, false), ended), Self.document,
        "\(found.hostname): nothing is passed on; \(Phrase.count(ended, "registration")) ended"
      )
    }
  }

  struct Show: AsyncParsableCommand, PrintsDocument {
    static let configuration = CommandConfiguration(
      abstract:
        "Shows whether a chat server has a link to the upstream bouncer, and whether that works.")

    @OptionGroup var options: GlobalOptions
    @Argument(help: "The server's zulip_org_id or hostname.") var server: String

    static var documents: [JSONDocument] { .of(document) }

    private static var document: [JSONMember<(state: LinkState, report: UpstreamReport?)>] {
      members.of { $0.state } + UpstreamReport.members.map { member in member.ifThere { $0.report } }
    }

    func run() async throws {
      let configuration = try options.load()
      let (found, report) = try await Store.with(options, configuration) { store in
        let found = try await store.find(server)
        return (found, try await store.link(of: found.id, configuration))
      }
      let result = ((found, report != nil), report)
      guard let report else {
        return options.show(
          result, Self.document,
          "\(found.hostname): nothing is passed on; push-bouncer server upstream enable \(found.hostname) changes that"
        )
      }
      options.show(result, Self.document) { page in
        page.add("\(found.hostname), at \(report.host ?? "the upstream bouncer")", .heading)
        for sentence in report.fact(at: Date()).sentences {
          page.add("  \(sentence.text)", sentence.isBad ? .bad : .plain)
        }
      }
    }
  }
}

/// Whether a server has an upstream link.
private typealias LinkState = (server: RemoteServer, isEnabled: Bool)

private var members: [JSONMember<LinkState>] {
  RemoteServer.members.of { $0.server } + [.member("enabled") { $0.isEnabled }]
}

extension Store {
  /// What there is to say of a server's upstream link; nil if it has none.
  func link(of server: Int64, _ configuration: Configuration) async throws -> UpstreamReport? {
    try await UpstreamReport(of: server, upstreamLinks, at: configuration.upstream.authority)
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
  static var members: [JSONMember<UpstreamReport>] {
    [
      .member("host", "the upstream bouncer, of `upstream.url`") { $0.host },
      .member("enabled_at") { $0.link.enabledAt },
      .member("has_key", "whether the server's key is known, which the upstream bouncer needs") {
        $0.link.key != nil
      },
      .member("registrations", "end-to-end encrypted ones that are passed on") { $0.encrypted },
      .member("legacy_registrations") { $0.legacy },
      .member("last_report_at", "when the upstream bouncer last took the server's report") {
        $0.link.reportedAt
      },
      .member(
        "last_report_failure",
        "why it refused the last report; null if it took it, or there was none since `enable`"
      ) { $0.link.failure },
      .member(
        "sending_refused_at",
        "when it last refused to send for the server, as by its plan, to the hour; null while it sends"
      ) { $0.link.refusedAt },
    ]
  }
}
