import ArgumentParser
import Basics
import Foundation
import HTTP
import Logging
import Operator
import Platform
import Server

/// `doctor`: checks that everything works.
struct Doctor: AsyncParsableCommand, PrintsDocument {
  static let configuration = CommandConfiguration(
    commandName: "doctor",
    abstract:
      "Checks configuration, keys, permissions, database, clock, TLS and each provider; exits 1 if it finds a fault.",
    discussion: """
      Each credential is tried with a push to a token that cannot exist, so nobody gets anything. Nothing is changed. A \
      warning is something to know; it is not a fault.

      It examines what its own configuration names. A service that runs with that storage.key is asked what it was started \
      with: the line service names what differs.
      """)

  @OptionGroup var options: GlobalOptions

  func run() async throws {
    // Faults are printed as findings, so they are not logged too.
    bootstrapLogging(level: .critical, format: .text)
    var findings: [Finding]
    do {
      let configuration = try options.load()
      let line = ProgressLine()
      findings = await Operator.Doctor(
        configuration,
        checks: { visit in
          StartCheck.all(
            configuration, visit: visit, running: { await RunningService.find(configuration) })
        },
        providerTime: { await ProviderTime.ask(configuration) },
        pushService: { await OwnPushService.ask($0, configuration) },
        running: { await RunningService.state(configuration).state }
      ).examine { line.show("looking at \($0) ...") }
      ProgressLine.clear()
    } catch let fault as Fault {
      findings = Finding.unreadable(fault)
    }
    options.show(findings, Self.document) { Self.fill(&$0, findings) }
    if !findings.allSatisfy(\.isGood) { throw ExitCode.failure }
  }

  static var documents: [JSONDocument] { .of(document) }

  private static var document: [JSONMember<[Finding]>] {
    [
      .list(
        "findings",
        of: JSONMember<Finding>.check(\.check, \.standing) + [
          .member("detail", "what was found, in a sentence") { $0.detail },
          .member("advice", "what to do") { $0.advice },
        ]
      ) { $0 }
    ]
  }

  private static func fill(_ page: inout Page, _ findings: [Finding]) {
    let width = findings.map(\.check.displayedWidth).max() ?? 0
    for finding in findings {
      let (word, tone) = finding.standing.word
      let check = finding.check + String(repeating: " ", count: width - finding.check.displayedWidth)
      page.add("\(word)\(check)  \(finding.detail)", tone)
      if let advice = finding.advice { page.add(String(repeating: " ", count: width + 11) + advice) }
    }
    page.add()
    page.add(Finding.summary(findings.map(\.standing)))
  }
}

extension Finding.Standing {
  /// The standing as a word in a table column, with its colour.
  var word: (String, Terminal.Tone) {
    switch self {
    case .good: ("ok       ", .plain)
    case .warning: ("warning  ", .doubtful)
    case .fault: ("FAULT    ", .bad)
    case .skipped: ("skipped  ", .faint)
    }
  }

  /// The name in JSON.
  fileprivate var name: String {
    switch self {
    case .good: "ok"
    case .warning: "warning"
    case .fault: "fault"
    case .skipped: "skipped"
    }
  }
}

extension JSONMember {
  /// What `doctor` and `app check` have in common: what was checked, and with which result.
  static func check(
    _ check: @escaping (Whole) -> String, _ standing: @escaping (Whole) -> Finding.Standing
  ) -> [JSONMember] {
    [
      .member("check", "what was checked", check),
      .member(
        "status", .oneOf(Finding.Standing.allCases.map(\.name)),
        "`warning` is something to know, and no fault; `skipped` could not be checked"
      ) { .string(standing($0).name) },
    ]
  }
}

extension Finding {
  /// The last line of a list of findings: how many faults and warnings it has.
  static func summary(_ standings: [Standing]) -> String {
    let faults = standings.count { $0 == .fault }
    let warnings = standings.count { $0 == .warning }
    return (faults == 0 ? "No fault was found" : "\(Phrase.count(faults, "fault")) found")
      + (warnings == 0 ? "." : ", and \(Phrase.count(warnings, "warning")) given.")
  }
}

/// `clock ...`: lets the operator confirm a clock that the service doubts.
struct Clock: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Confirms the clock to a service that doubts it.", subcommands: [Trust.self])
}

extension Clock {
  struct Trust: AsyncParsableCommand, PrintsDocument {
    static let configuration = CommandConfiguration(
      abstract: "Confirms that this machine's clock is right.",
      discussion: """
        A service doubts its clock if that was set ahead or back, or is far from the newest time in the database. \
        Nothing expires while it does, which is for ten minutes or longer. Within seconds of this command, every node on \
        the database trusts its clock if it differs from this machine's by less than a minute, and doubts it otherwise.
        """)

    @OptionGroup var options: GlobalOptions
    @Option(help: .hidden) var clockOffset: String?

    static var documents: [JSONDocument] { .of(document) }

    private static var document: [JSONMember<Date>] {
      [.member("time", "what every node now takes for right") { $0 }]
    }

    func run() async throws {
      guard let offset = clockOffset.map(Quantity.duration) ?? .zero else {
        throw ValidationError("--clock-offset must be a duration, like 25h")
      }
      let now = Date() + offset / .seconds(1)
      _ = try await Store.with(options) { try await ClockRecord(database: $0.database).write(now) }
      options.show(now, Self.document, "it is \(now.formatted(.iso8601)) from now on")
    }
  }
}
