import ArgumentParser
import Basics
import Delivery
import Foundation
import HTTP
import Logging
import Operator
import Providers
import Registrations
import Server
import ZulipBouncer

/// `routes ...`: the credentials for sending notifications, and the deletions held back on each.
struct Routes: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract:
      "Shows the state of each credential, and deletes registrations whose deletion is held back.",
    subcommands: [List.self, Trust.self], defaultSubcommand: List.self)
}

extension Routes {
  struct List: AsyncParsableCommand, PrintsDocument {
    static let configuration = CommandConfiguration(
      abstract:
        """
        Lists the credentials and Web Push: their state in the running service, what waits for each, and how many \
        deletions are held back. Of the push services it lists the ten with the most waiting notifications.
        """)

    @OptionGroup var options: GlobalOptions

    static var documents: [JSONDocument] { .of(document) }

    private static var document: [JSONMember<(routes: [RouteReport], left: Int)>] {
      [
        .list("routes", of: RouteReport.columns.members()) { $0.routes },
        .member(
          "more_services", "push services that are left out; the ten for which most waits are listed"
        ) { $0.left },
      ]
    }

    func run() async throws {
      let configuration = try options.load()
      let (held, listing) = try await Store.with(options, configuration) { store in
        (HeldByRoute(try await store.registrations.held()), try await store.outbox.listing())
      }
      let (standing, state) = await RunningService.state(configuration)
      let health = state?.health
      if health == nil {
        let place = "\(configuration.admin.host):\(configuration.admin.port) (admin.host, admin.port)"
        printError(
          standing == .absent
            ? "no service answers on \(place): their states are not known"
            : """
            what answers on \(place) has not proved to be this service (it is another program, or push-bouncer of another \
            version): their states are not known
            """)
      }
      let (routes, left) = Self.routes(configuration, health, listing, held)
      options.show((routes, left), Self.document) { page in
        guard !routes.isEmpty else {
          return page.add(
            "no credentials: \(configuration.keys.directory)/README.md says which files to put there")
        }
        page.add(routes.table(RouteReport.columns))
        if left > 0 { page.add("and \(Phrase.count(left, "more push service"))") }
        for route in routes where !route.sentences.isEmpty {
          page.add()
          page.add(route.name, .heading)
          for sentence in route.sentences { page.add("  \(sentence)") }
        }
      }
      if routes.isEmpty, !options.json { printError(configuration.whereabouts) }
    }

    /// Every credential, Web Push as a whole, and the push services with the most waiting notifications.
    ///
    /// - Returns: the routes, and the number of push services that are left out.
    private static func routes(
      _ configuration: Configuration, _ health: ReportedHealth?, _ listing: OutboxContents.Listing,
      _ held: HeldByRoute
    ) -> ([RouteReport], left: Int) {
      let keys = KeyFolder(
        directory: configuration.keys.directory, defaultProject: configuration.fcm.defaultProject,
        logger: Logger(label: "routes") { _ in SwiftLogNoOpLogHandler() }
      ).load().credentials
      let names =
        keys.all.map(\.route) + configuration.routesElsewhere
      let waiting = Dictionary(
        listing.groups.map { ("\($0.provider):\($0.credential)", $0.count) }, uniquingKeysWith: +)
      let reasons = Dictionary(grouping: listing.groups) { "\($0.provider):\($0.credential)" }.mapValues {
        Dictionary($0.compactMap { group in group.reason.map { ($0, group.count) } }, uniquingKeysWith: +)
      }
      // Only those that fail: `/readyz` does not list the others.
      let failing = health?.services ?? [:]
      let known = Set(held.names).union(waiting.keys).union(failing.keys)
      let services = known.filter(\.isPushService).sorted {
        (waiting[$1] ?? 0, held.count($1), $0) < (waiting[$0] ?? 0, held.count($0), $1)
      }
      let shown = services.prefix(OutboxContents.mostServices)
      func report(_ name: String, _ status: StatusReport?, isThere: Bool = true) -> RouteReport {
        RouteReport(
          name: name, status: status, waiting: waiting[name] ?? 0, held: held[name], isThere: isThere,
          reasons: reasons[name] ?? [:])
      }
      var routes =
        names.map { report($0, health?.checks[$0]) }
        + known.subtracting(names).filter { !$0.isPushService }.sorted().map {
          report($0, health?.checks[$0], isThere: false)
        }
      if configuration.webPush.isEnabled || !shown.isEmpty {
        let count = services.compactMap { waiting[$0] }.reduce(listing.entriesLeft, +)
        routes.append(
          RouteReport(
            name: "webpush", status: health?.checks["webpush"], waiting: count, held: [], isThere: true,
            note: configuration.webPush.isEnabled ? nil : "switched off"))
      }
      routes += shown.map { report($0, failing[$0]) }
      let most = max(
        services.count, health?.failingServices ?? 0,
        listing.servicesLeft + waiting.keys.count { $0.isPushService })
      return (routes, most - shown.count)
    }
  }

  struct Trust: AsyncParsableCommand, PrintsDocument {
    static let configuration = CommandConfiguration(
      abstract: "Deletes the registrations that this credential's provider reported as dead.",
      discussion: """
        If a provider reports more than half of the tokens as dead, their deletion is held back: a registration is \
        deleted only if the provider reports it again an hour later. This command deletes all of them now. \
        \(Advice.trust("NAME")) Registrations that were renewed meanwhile are kept. The service may keep running.
        """)

    @OptionGroup var options: GlobalOptions
    @Argument(
      help:
        "The credential or push service, as routes list calls it, for example fcm:default or webpush:ntfy.example.org."
    ) var name: String

    static var documents: [JSONDocument] { .of(document) }

    private static var document: [JSONMember<(route: String, held: [RegistrationStore.Held], ended: Int)>] {
      [
        .member("route", "as in `routes list`") { $0.route },
        .list("held_by_reason", of: RegistrationStore.Held.members) { $0.held },
        .member("ended", "registrations that have ended now") { $0.ended },
      ]
    }

    func run() async throws {
      let (route, held, ended) = try await Store.with(options) { store in
        let held = HeldByRoute(try await store.registrations.held())
        let route = try held.find(name)
        var ended = 0
        for id in Set(held[route].map(\.routeID)) { ended += try await store.registrations.endHeld(on: id) }
        return (route, held[route], ended)
      }
      options.show(
        (route, held, ended), Self.document,
        """
        \(held.map { "\(route) \($0.line)" }.joined(separator: "\n"))
        \(ended) registrations have ended
        """)
    }
  }
}

/// Deletions held back, by credential.
private struct HeldByRoute {
  private let held: [String: [RegistrationStore.Held]]

  init(_ held: [RegistrationStore.Held]) {
    self.held = Dictionary(grouping: held) { "\($0.provider):\($0.credential)" }
  }

  /// The names of credentials with deletions held back.
  var names: [String] { held.keys.sorted() }

  subscript(name: String) -> [RegistrationStore.Held] {
    (held[name] ?? []).sorted {
      ($0.target, $0.wire.rawValue, $0.reason) < ($1.target, $1.wire.rawValue, $1.reason)
    }
  }

  /// The number of deletions held back on one credential.
  func count(_ name: String) -> Int { (held[name] ?? []).map(\.count).reduce(0, +) }

  /// The credential with this name. The provider may be left out if the rest is unique.
  func find(_ name: String) throws -> String {
    let found = names.filter { $0 == name || $0.hasSuffix(":\(name)") }
    if let route = found.first, found.count == 1 { return route }
    let those = found.isEmpty ? names : found
    throw Fault(
      found.isEmpty
        ? "no deletions are held back for \(name)\(those.isEmpty ? ", nor for any other" : ", but for: \(list(those))")"
        : "\(name) may be any of: \(list(those))")
  }

  private func list(_ names: [String]) -> String {
    let shown = names.prefix(OutboxContents.mostServices).map { "\($0) (\(count($0)))" }
    return (shown + (names.count > shown.count ? ["\(names.count - shown.count) more"] : []))
      .joined(separator: ", ")
  }
}

extension String {
  /// Whether the name is a push service's: `webpush:push.example.org`.
  fileprivate var isPushService: Bool { utf8.starts(with: "webpush:".utf8) }
}

/// A row of the list.
private struct RouteReport {
  let name: String
  /// From the running service; nil if it did not answer.
  let status: StatusReport?
  /// How many entries of the outbox wait for it.
  let waiting: Int
  let held: [RegistrationStore.Held]
  /// Whether its file exists in the folder of keys, or it needs none.
  let isThere: Bool
  /// Shown in place of the state.
  var note: String?
  /// How many wait for each reason.
  var reasons: [String: Int] = [:]

  /// What is wrong and what to do, in sentences.
  var sentences: [String] {
    let explained = [status?.meaning, status?.advice].compactMap(\.self)
    // The service may not run, or its route fail for another reason.
    let isHeldExplained = held.isEmpty || status?.reason == Reason.deletionsHeld.rawValue
    let advice = isHeldExplained ? [] : [Advice.heldDeletions(on: name).text]
    return explained + held.map(\.line) + advice + waits
  }

  /// How many wait for each reason, the most first.
  private var counts: [(key: String, value: Int)] {
    reasons.sorted { ($1.value, $0.key) < ($0.value, $1.key) }
  }

  /// Why notifications wait, unless that is the route's own reason.
  private var waits: [String] {
    counts.filter { $0.key != status?.reason }.map {
      let count = Phrase.count($1, "notification waits", "notifications wait")
      return "\(count) (\($0)): \(Explanation.of($0).meaning)"
    }
  }

  private var state: Table.Cell {
    guard isThere else { return .init("no key file", .bad) }
    if let note { return .init(note, .faint) }
    return switch status?.status {
    case "ok"?: .init("ok", .good)
    case "unknown"?: .init("not used yet", .faint)
    case let state?: .init(state, .bad)
    case nil: .init("not known", .faint)
    }
  }

  static var columns: [ReportColumn<RouteReport>] {
    [
      .text(
        "route", "ROUTE",
        "`apns:NAME`, `fcm:NAME`, `upstream:HOST`, `webpush`, or `webpush:HOST` for a push service"
      ) { $0.name },
      .members([
        .member("provider", .oneOf(Route.Provider.self)) { .string(String($0.name.prefix { $0 != ":" })) }
      ]),
      .members(
        StatusReport.members(StatusReport.routeStatuses).map { member in
          member.orNull { $0.status }
        }), .cell("STATUS") { $0.state },
      .cell("SINCE") { .optional($0.status?.since.map { Phrase.age($0) }) },
      .cell("REASON") { .optional($0.status?.reason) },
      .number(
        "waiting", "WAITING",
        "notifications that wait for it; `webpush` has those of all push services, and the rows `webpush:HOST` the rest"
      ) { Int64($0.waiting) },
      .members([
        .list("waiting_by_reason", "as of their last try, where that is known", of: waitingMembers) {
          $0.counts
        }
      ]),
      .number(
        "held_deletions", "HELD BACK",
        "registrations that its provider has reported as dead and that are kept for now"
      ) { Int64($0.held.map(\.count).reduce(0, +)) },
      .members([.list("held_by_reason", of: RegistrationStore.Held.members) { $0.held }]),
    ]
  }

  private static var waitingMembers: [JSONMember<(key: String, value: Int)>] {
    [.member("reason") { $0.key }, .member("count", "notifications") { $0.value }]
  }
}

extension RegistrationStore.Held {
  fileprivate static var members: [JSONMember<Self>] {
    [
      .member("target", "bundle id, Firebase project or push service") { $0.target },
      .member("kind", "kind of registration") { $0.wire },
      .member("reason", "what the provider has said") { $0.reason },
      .member("since", "when it first said so") { $0.since },
      .member("count", "registrations") { $0.count },
    ]
  }

  fileprivate var line: String {
    "\(target): \(Phrase.count(count, "deletion")) of kind \(wire) held back, \(reason), first reported \(Phrase.age(since))"
  }
}
