import ArgumentParser
import AsyncHTTPClient
import Delivery
import Foundation
import HTTP
import Logging
import NIOCore
import NIOHTTP1
import Operations
import Providers
import Registrations
import Server

/// `routes ...`: the credentials that notifications are sent with, and the deaths of tokens that are held back on each.
struct Routes: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract:
      "Shows the state of each credential, and ends registrations that a provider has called dead in masses.",
    subcommands: [List.self, Trust.self], defaultSubcommand: List.self)
}

extension Routes {
  struct List: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      abstract:
        """
        Lists the credentials and Web Push: their state in the running service, what waits for each, and how many \
        deaths are held back. Of push services it shows the ten for which most waits.
        """)

    @OptionGroup var options: GlobalOptions

    func run() async throws {
      let configuration = try options.load()
      let (held, listing) = try await Store.with(options, configuration) { store in
        (HeldByRoute(try await store.registrations.held()), try await store.outbox.listing())
      }
      let keys = KeyFolder(
        directory: configuration.keys.directory, defaultProject: configuration.fcm.defaultProject,
        logger: Logger(label: "routes") { _ in SwiftLogNoOpLogHandler() }
      ).load().credentials
      let checks = await Self.checks(configuration.admin)
      if checks == nil {
        note(
          """
          no service answers on \(configuration.admin.host):\(configuration.admin.port) (admin.host, admin.port): states \
          are not known
          """)
      }
      let names = keys.apns.map { "apns:\($0.name)" } + keys.fcm.map { "fcm:\($0.name)" }
      let depths = Dictionary(
        listing.groups.map { ("\($0.provider):\($0.credential)", $0.count) }, uniquingKeysWith: +)
      let others = Set(held.names).union(depths.keys).subtracting(names).filter { !$0.isPushService }.sorted()
      var routes = (names + others).map { name in
        RouteReport(
          name: name, check: checks?[name], waiting: depths[name] ?? 0, held: held[name],
          isThere: names.contains(name))
      }
      let services = PushServiceReports(
        checks?["webpush"],
        waiting: listing.servicesLeft + depths.keys.count { $0.isPushService }, depths, held)
      if configuration.webPush.isEnabled || !services.reports.isEmpty {
        routes.append(
          RouteReport(
            name: "webpush", check: checks?["webpush"], waiting: listing.waiting(of: "webpush"), held: [],
            isThere: true, note: configuration.webPush.isEnabled ? nil : "switched off"))
      }
      routes += services.reports
      options.show(["routes": .array(routes.map(\.json)), "more_services": .integer(Int64(services.left))]) {
        page in
        guard !routes.isEmpty else {
          page.add("no credentials: \(configuration.keys.directory)/README.md says which files to put there")
          return page.add(aside: configuration.whereabouts)
        }
        page.add(RouteReport.table(routes))
        if services.left > 0 { page.add("and \(Phrase.count(services.left, "more push service"))") }
        for route in routes { page.add(route) }
      }
    }

    /// What the service that runs here says of the credentials; nil if none answers.
    private static func checks(_ admin: Configuration.Admin) async -> JSON? {
      let host = ["0.0.0.0": "127.0.0.1", "::": "[::1]"][admin.host] ?? admin.host
      let url =
        "http://\(host.contains(":") && !host.hasPrefix("[") ? "[\(host)]" : host):\(admin.port)/readyz"
      var request = HTTPClientRequest(url: url)
      if let token = admin.token { request.headers.add(name: "Authorization", value: "Bearer \(token)") }
      guard let answer = try? await HTTPClient.shared.execute(request, timeout: .seconds(5)),
        let body = try? await answer.body.collect(upTo: 1 << 20)
      else { return nil }
      return (try? JSON.parse(String(buffer: body)))?["checks"]
    }
  }

  struct Trust: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "Ends every registration whose death is held back on a credential.",
      discussion: """
        When a provider calls more than half of the tokens dead, it is not believed at once: a registration ends only \
        when the provider says the same again an hour later. If you know that these tokens are dead, for example \
        after moving in with old ones, this command ends their registrations now. Those that were made again \
        meanwhile stay. The service may run.
        """)

    @OptionGroup var options: GlobalOptions
    @Argument(
      help:
        "The credential or push service, as routes list calls it, for example fcm:default or webpush:ntfy.example.org."
    ) var name: String

    func run() async throws {
      let (route, held, ended) = try await Store.with(options) { store in
        let held = HeldByRoute(try await store.registrations.held())
        let route = try held.find(name)
        var ended = 0
        for id in Set(held[route].map(\.routeID)) { ended += try await store.registrations.endHeld(on: id) }
        return (route, held[route], ended)
      }
      options.show(
        [
          "route": .string(route), "held": .array(held.map(\.json)), "ended": .integer(Int64(ended)),
        ],
        """
        \(held.map { "\(route) \($0.line)" }.joined(separator: "\n"))
        \(ended) registrations have ended
        """)
    }
  }
}

/// The deaths that are held back, by credential.
private struct HeldByRoute {
  private let held: [String: [RegistrationStore.Held]]

  init(_ held: [RegistrationStore.Held]) {
    self.held = Dictionary(grouping: held) { "\($0.provider):\($0.credential)" }
  }

  /// The credentials on which any is held back.
  var names: [String] { held.keys.sorted() }

  subscript(name: String) -> [RegistrationStore.Held] {
    (held[name] ?? []).sorted {
      ($0.target, $0.kind.rawValue, $0.reason) < ($1.target, $1.kind.rawValue, $1.reason)
    }
  }

  /// How many are held back on a credential.
  func count(_ name: String) -> Int { (held[name] ?? []).map(\.count).reduce(0, +) }

  /// The credential that the operator means; its provider need not be named where the name is enough.
  func find(_ name: String) throws -> String {
    let found = names.filter { $0 == name || $0.hasSuffix(":\(name)") }
    if let route = found.first, found.count == 1 { return route }
    let those = found.isEmpty ? names : found
    throw CommandError(
      found.isEmpty
        ? "nothing is held back on \(name)\(those.isEmpty ? ", nor on any other" : "; it is on: \(list(those))")"
        : "\(name) is any of: \(list(those))")
  }

  private func list(_ names: [String]) -> String {
    let shown = names.prefix(OutboxContents.mostServices).map { "\($0) (\(count($0)))" }
    return (shown + (names.count > shown.count ? ["\(names.count - shown.count) more"] : []))
      .joined(separator: ", ")
  }
}

/// The push services that an operator should see: those for which most waits.
private struct PushServiceReports {
  let reports: [RouteReport]
  /// How many more there are of which something is known.
  let left: Int

  /// - Parameters:
  ///   - check: what `/readyz` says of Web Push.
  ///   - waiting: for how many of them anything waits.
  ///   - depths: what waits, by route.
  init(_ check: JSON?, waiting: Int, _ depths: [String: Int], _ held: HeldByRoute) {
    var failing: [String: JSON] = [:]
    if case .array(let services)? = check?["failing_services"] {
      for service in services {
        if let host = service["host"]?.string { failing["webpush:\(host)"] = service }
      }
    }
    let names = Set(failing.keys).union(depths.keys).union(held.names).filter(\.isPushService)
    let shown = names.sorted {
      (depths[$1] ?? 0, held.count($1), $0) < (depths[$0] ?? 0, held.count($0), $1)
    }.prefix(OutboxContents.mostServices)
    reports = shown.map { name in
      // Of one that the service does not call failing it says nothing.
      RouteReport(
        name: name, check: failing[name], waiting: depths[name] ?? 0, held: held[name], isThere: true)
    }
    let most = max(names.count, Int(check?["failing"]?.integer ?? 0), waiting)
    left = most - shown.count
  }
}

extension OutboxContents.Listing {
  /// How many wait for a provider, those in no group too.
  fileprivate func waiting(of provider: String) -> Int {
    groups.filter { $0.provider == provider }.map(\.count).reduce(0, +)
      + (provider == "webpush" ? entriesLeft : 0)
  }
}

extension String {
  /// Whether it is a route of Web Push: `webpush:push.example.org`.
  fileprivate var isPushService: Bool { utf8.starts(with: "webpush:".utf8) }
}

/// A credential in the list.
private struct RouteReport {
  let name: String
  /// What `/readyz` says of it; nil if the service did not answer.
  let check: JSON?
  /// Entries of the outbox.
  let waiting: Int
  let held: [RegistrationStore.Held]
  /// Whether its file is in the folder of keys, or it needs none.
  let isThere: Bool
  /// Instead of a state.
  var note: String?

  private var provider: String { String(name.prefix { $0 != ":" }) }
  private var count: Int { held.map(\.count).reduce(0, +) }
  private var since: Date? { check?["since"]?.string.flatMap { try? Date($0, strategy: .iso8601) } }

  var json: JSON {
    [
      "name": .string(name), "provider": .string(provider), "state": check?["status"] ?? .null,
      "reason": check?["reason"] ?? .null, "since": check?["since"] ?? .null,
      "meaning": check?["meaning"] ?? .null, "advice": check?["advice"] ?? .null,
      "waiting": .integer(Int64(waiting)), "held": .integer(Int64(count)),
      "held_deaths": .array(held.map(\.json)),
    ]
  }

  private var state: Table.Cell {
    guard isThere else { return .init("no key file", .bad) }
    if let note { return .init(note, .faint) }
    return switch check?["status"]?.string {
    case "ok"?: .init("ok", .good)
    case "unknown"?: .init("not used yet", .faint)
    case let state?: .init(state, .bad)
    case nil: .init("not known", .faint)
    }
  }

  static func table(_ reports: [RouteReport]) -> Table {
    var table = Table("ROUTE", "STATE", "SINCE", "REASON", .number("WAITING"), .number("HELD BACK"))
    for report in reports {
      table.add(
        .init(report.name), report.state, report.since.map { .init(Phrase.age($0)) } ?? .none,
        report.check?["reason"]?.string.map { .init($0) } ?? .none, .init(Phrase.number(report.waiting)),
        .init(Phrase.number(report.count)))
    }
    return table
  }
}

extension Page {
  /// What is wrong with a credential, and what to do.
  fileprivate mutating func add(_ route: RouteReport) {
    let sentences = ["meaning", "advice"].compactMap { route.check?[$0]?.string } + route.held.map(\.line)
    guard !sentences.isEmpty else { return }
    add()
    add(route.name, .heading)
    for sentence in sentences { add("  \(sentence)") }
  }
}

extension RegistrationStore.Held {
  fileprivate var json: JSON {
    [
      "target": .string(target), "kind": .string("\(kind)"), "reason": .string(reason),
      "since": timestamp(since), "count": .integer(Int64(count)),
    ]
  }

  fileprivate var line: String {
    "\(target): \(Phrase.count(count, "death")) of kind \(kind) held back, \(reason), first said \(Phrase.age(since))"
  }
}
