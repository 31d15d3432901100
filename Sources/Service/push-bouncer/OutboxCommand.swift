import ArgumentParser
import Basics
import Delivery
import Foundation
import HTTP
import Operator
import Providers
import Registrations
import Server

/// `outbox ...`: accepted notifications that no provider has taken yet.
struct OutboxCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "outbox",
    abstract: "Shows how many notifications wait for a provider, and drops those that nobody needs any more.",
    subcommands: [List.self, Drop.self], defaultSubcommand: List.self)
}

extension OutboxCommand {
  struct List: AsyncParsableCommand, PrintsDocument {
    static let configuration = CommandConfiguration(
      abstract:
        "Lists the waiting notifications by credential, kind of registration and reason, never their content."
    )

    @OptionGroup var options: GlobalOptions

    private typealias Contents = (listing: OutboxContents.Listing, overPace: [OutboxContents.ServerOverPace])

    static var documents: [JSONDocument] { .of(document) }

    private static var document: [JSONMember<Contents>] {
      [
        .member("waiting", "notifications that wait, in all") { $0.listing.count },
        .list("groups", of: OutboxContents.Group.columns.members()) { $0.listing.groups },
        .member(
          "more_services", "push services that are left out; the ten for which most waits are listed"
        ) { $0.listing.servicesLeft },
        .list(
          "servers_over_pace",
          "chat servers that send more than `bouncer.notifications_per_server`, those of which most waits first",
          of: OutboxContents.ServerOverPace.members
        ) { $0.overPace },
      ]
    }

    /// How many of the servers over their pace are named.
    private static let mostServers = 10

    func run() async throws {
      let (listing, overPace) = try await Store.with(options) { store in
        (try await store.outbox.listing(), try await store.outbox.serversOverPace())
      }
      options.show((listing, overPace), Self.document) { page in
        guard let oldest = listing.oldestAt else { return page.add("nothing waits") }
        let count = Phrase.count(listing.count, "notification waits", "notifications wait")
        page.add("\(count), the oldest for \(Phrase.duration(Date().timeIntervalSince(oldest)))")
        page.add()
        page.add(listing.table)
        if let rest = listing.rest { page.add(rest) }
        for reason in Set(listing.groups.compactMap(\.reason)).sorted() {
          let explanation = Explanation.of(reason)
          page.add()
          page.add(reason, .heading)
          page.add("  \(explanation.meaning)")
          page.add("  \(explanation.advice)")
          guard reason == Reason.serverOverPace.rawValue else { continue }
          for server in overPace.prefix(Self.mostServers) {
            page.add(
              "  \(server.hostname): \(Phrase.count(server.waiting, "notification waits", "notifications wait"))"
            )
          }
          let left = overPace.count - Self.mostServers
          if left > 0 { page.add("  and \(Phrase.count(left, "more server")): push-bouncer server list") }
        }
      }
    }
  }

  struct Drop: AsyncParsableCommand, PrintsDocument {
    static let configuration = CommandConfiguration(
      abstract: "Drops waiting notifications: nobody gets them.",
      discussion: """
        Choose them with one or more options, which must all match, or with --all. The service may keep running; a \
        notification that it is sending at this moment may still arrive.
        """)

    @OptionGroup var options: GlobalOptions
    @Option(
      help: ArgumentHelp(
        "Those for a credential or push service, such as apns:main or webpush:ntfy.example.org, or for a provider.",
        valueName: "name")) var route: String?
    @Option(help: "Those for a kind of registration.") var kind: Kind?
    @Option(help: ArgumentHelp("Those that have waited longer, such as 2h.", valueName: "duration"))
    var olderThan: String?
    @Flag(help: "All of them.") var all = false
    @Flag(name: [.short, .long], help: "Does not ask first.") var yes = false

    /// A kind of registration, by its name.
    struct Kind: ExpressibleByArgument {
      static let allValueStrings = Wire.allCases.map(\.description)
      static var defaultCompletionKind: CompletionKind { .list(allValueStrings) }

      let wire: Wire

      init?(argument: String) {
        guard let wire = Wire(name: argument) else { return nil }
        self.wire = wire
      }
    }

    func validate() throws {
      let isChosen = route != nil || kind != nil || olderThan != nil
      guard isChosen != all else {
        throw ValidationError(
          all
            ? "--all cannot be combined with another choice"
            : "choose with --route, --kind, --older-than or --all")
      }
      if let olderThan, Quantity.duration(olderThan) == nil {
        throw ValidationError("--older-than must be a duration, like 2h")
      }
    }

    static var documents: [JSONDocument] { .of(document) }

    private static var document: [JSONMember<Int>] {
      [.member("dropped", "notifications that nobody will get") { $0 }]
    }

    func run() async throws {
      let age = olderThan.flatMap(Quantity.duration)
      let count = try await Store.with(options) { store in
        var filter = OutboxContents.Filter()
        filter.route = route
        filter.wire = kind?.wire
        filter.before = age.map { store.now() - $0 / .seconds(1) }
        let listing = try await store.outbox.listing(filter)
        let count = listing.count
        guard count > 0 else {
          throw NotFound("no such notification waits; push-bouncer outbox list shows what does")
        }
        if !yes { try confirm(listing) }
        let line = ProgressLine()
        return try await store.outbox.drop(filter) {
          line.show("\(Phrase.number($0)) of \(Phrase.number(count))")
        }
      }
      options.show(
        count, Self.document,
        "\(Phrase.count(count, "notification was", "notifications were")) dropped")
    }

    private func confirm(_ listing: OutboxContents.Listing) throws {
      let text = Phrase.count(listing.count, "notification")
      guard isatty(STDIN_FILENO) == 1 else {
        throw Fault("this would drop \(text): add --yes to do it")
      }
      printError(listing.table.text(for: .plain))
      if let rest = listing.rest { printError(rest) }
      FileHandle.standardError.write(Data("\nDrop \(text)? Nobody will get them. [y/N] ".utf8))
      guard ["y", "yes"].contains(readLine()?.lowercased() ?? "") else {
        throw Fault("nothing was dropped")
      }
    }
  }
}

extension OutboxContents.Group {
  fileprivate static var columns: [ReportColumn<Self>] {
    [
      .text("route", "ROUTE", "as in `routes list`") { "\($0.provider):\($0.credential)" },
      .member("target", "bundle id, Firebase project or push service; may be empty") { $0.target },
      .cell("TARGET") { $0.target.isEmpty ? .none : .init($0.target) },
      .text(
        "kind", "KIND", "kind of registration, as `outbox drop --kind` takes it",
        shape: .oneOf(Wire.allCases.map(\.description) + ["unknown"])
      ) { group in group.wire.map { "\($0)" } ?? "unknown" },
      .text("reason", "REASON", "why they wait, as of their last try; null if that is not known") {
        $0.reason
      },
      .member("meaning", "what the reason means, in sentences") { group in
        group.reason.map { Explanation.of($0).meaning }
      },
      .member("advice", "what to do, in sentences") { group in group.reason.map { Explanation.of($0).advice }
      },
      .number("waiting", "WAITING", "notifications") { Int64($0.count) },
      .age("oldest_at", "OLDEST", "when the oldest came") { $0.oldestAt },
      .number("attempts", "ATTEMPTS", "the most attempts that one of them has had") { Int64($0.attempts) },
      .member("due_at", "the next attempt") { $0.dueAt }, .cell("NEXT TRY") { .init(Phrase.until($0.dueAt)) },
      .member("expires_at", "when the first is given up") { $0.expiresAt },
      .cell("FIRST GIVEN UP") { .init(Phrase.until($0.expiresAt)) },
    ]
  }
}

extension OutboxContents.ServerOverPace {
  fileprivate static var members: [JSONMember<Self>] {
    [
      .member("hostname") { $0.hostname }, .member("org_id") { $0.uuid },
      .member("waiting", "its notifications that wait for that") { $0.waiting },
    ]
  }
}

extension OutboxContents.Listing {
  /// What the listed lines leave out; nil if nothing.
  fileprivate var rest: String? {
    guard servicesLeft > 0 || entriesLeft > 0 else { return nil }
    return "and \(Phrase.number(entriesLeft)) more for \(Phrase.count(servicesLeft, "other push service"))"
  }

  fileprivate var table: Table { groups.table(OutboxContents.Group.columns) }
}
