import AppCheck
import ArgumentParser
import Basics
import Foundation
import HTTP
import Logging
import NextcloudProxy
import Operator
import Platform
import Providers
import Server

/// `app ...`: the apps that are built for this service.
struct App: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Checks an app that was built, or is to be built, for this service.",
    subcommands: [Check.self, Expect.self])

  /// What the service has that is configured here.
  fileprivate static func service(_ options: GlobalOptions, isNeeded: Bool) throws -> AppCheck.Service {
    let configuration = try options.load(isNeeded: isNeeded)
    let folder = configuration.keys.directory
    if let obstacle = FileObstacle.listing(folder) {
      // Says so if the configuration is only out of this user's reach.
      _ = try options.load()
      guard obstacle == FileObstacle(ENOENT) else { throw Fault(obstacle, of: folder, key: "keys.directory") }
      throw Fault(
        "there is no configuration and no folder \(folder) here to compare the app with",
        advice: "run this where the service's are, or name its configuration with --config")
    }
    let keys = KeyFolder(
      directory: folder, defaultProject: configuration.fcm.defaultProject,
      logger: Logger(label: "app") { _ in SwiftLogNoOpLogHandler() }
    ).load()
    for problem in keys.problems { printError("\(folder)/\(problem.file): \(problem.message)") }
    return try .init(
      bouncerKeys: keys.bouncer, credentials: keys.credentials, publicURL: configuration.http.publicURL,
      apps: NextcloudApps.configured(configuration.nextcloudProxy))
  }

  /// The same, for somebody who has an app and perhaps not the service.
  fileprivate static func serviceToCompare(_ options: GlobalOptions) throws -> AppCheck.Service {
    do {
      return try service(options, isNeeded: false)
    } catch let fault as Fault {
      let other =
        "pass --against a file with the output of push-bouncer app expect from where both can be read"
      throw Fault(
        source: fault.source, key: fault.key, fault.problem,
        advice: fault.advice.map { "\($0); or \(other)" } ?? other)
    }
  }
}

extension App {
  struct Check: AsyncParsableCommand, PrintsDocument {
    static let configuration = CommandConfiguration(
      abstract:
        "Compares an app's source, or its APK, AAB or IPA, with this service; exits 1 if the two do not fit.",
      discussion: """
        Knows Zulip (zulip-flutter), Nextcloud Talk and Nextcloud Files, for Android and iOS, and brands of them. Looks at \
        the bouncer's public key or the push proxy's address, Firebase values, package name, bundle ids, team, app groups, \
        APNs environment, notification extension, background modes, User-Agent and signing certificate, and compares them \
        with the configuration, the Keys folder and nextcloud.apps_file. Of a compiled app it reads what it can. What it cannot check is listed as skipped, and \
        also makes it exit 1. Nothing is changed.

        With --against it needs neither configuration nor keys, only the output of app expect from where they are.
        """)

    @OptionGroup var options: GlobalOptions
    @Option(
      help: .init(
        "A file with the output of app expect, to compare with instead of the configuration and the keys.",
        valueName: "file"))
    var against: String?
    @Option(
      help: .init(
        "Which flavour of an Android app's source to check (default: gplay, or the first that is published).",
        valueName: "name"))
    var flavor: String?
    @Option(
      help: .init(
        "How to print what was found, for a pipeline: github (annotations of GitHub Actions) or sarif (SARIF 2.1.0).",
        valueName: "name"))
    var format: AppReportFormat?
    @Argument(help: "The folder with the app's source, or a built package.") var path: String

    func validate() throws {
      guard format == nil || !options.json else {
        throw ValidationError("--json and --format are two forms: pass one of them")
      }
    }

    func run() async throws {
      do {
        let report = try report()
        if let format {
          printLine(format.text(of: report, path: path))
        } else {
          show(report)
        }
        if !report.isGood || !report.skipped.isEmpty { throw ExitCode.failure }
      } catch let fault as Fault where options.json {
        options.show(.failure(fault), Self.document, "")
        throw ExitCode.failure
      }
    }

    private func report() throws -> AppCheck.Report {
      // Read before root becomes the service's user, who may not be allowed to read them.
      let app = try AppCheck.App(path: path, flavor: flavor)
      let service = try against.map { path in
        try AppCheck.Service(Array(Data(contentsOf: URL(fileURLWithPath: path))), path: path)
      }
      return try AppCheck(service: service ?? App.serviceToCompare(options)).report(on: app)
    }

    private func show(_ report: AppCheck.Report) {
      options.show(.success(report), Self.document) { page in
        page.add("This is \(report.app)\(report.variant.map { ": \($0)" } ?? "").")
        page.add()
        Self.fill(&page, report)
      }
    }

    static var documents: [JSONDocument] { .of(document) }

    private static var document: [JSONMember<Result<AppCheck.Report, Fault>>] {
      [
        .member("app", "which app this is; empty if there is an `error`") { $0.report?.app ?? "" },
        .member("flavor", "which of an Android app's flavours was checked") { $0.report?.flavor },
        .member("configuration", "which configuration of an Xcode project was checked") {
          $0.report?.configuration
        },
        .object("counts", of: counts) { $0.report?.findings ?? [] },
        .list("findings", of: findingMembers) { $0.report?.findings ?? [] },
        .object("error", "why nothing could be checked", orNull: errorMembers) { $0.fault },
      ]
    }

    private static var counts: [JSONMember<[AppCheck.Finding]>] {
      func count(_ name: String, _ standing: Finding.Standing) -> JSONMember<[AppCheck.Finding]> {
        .member(name) { $0.count { $0.standing == standing } }
      }
      return [
        count("ok", .good), count("warnings", .warning), count("faults", .fault), count("skipped", .skipped),
      ]
    }

    private static var errorMembers: [JSONMember<Fault>] {
      [
        .member("message", "what is wrong") { $0.description },
        .member("advice", "how to fix it") { $0.advice },
      ]
    }

    private static var findingMembers: [JSONMember<AppCheck.Finding>] {
      JSONMember.check(\.check, \.standing) + [
        .member("found", "value and remark in one") { $0.found },
        .member("value", "what the app has") { $0.value },
        .member("remark", "what is to be known of it, or why it could not be checked") { $0.remark },
        .member("file", "where, in the app: the first of `places`") { $0.file },
        .member("line", "of this file, from 1") { $0.line },
        .member("expected", "what must be there") { $0.expected },
        .member("effect", "what happens otherwise") { $0.effect },
        .list("places", "one cause is one finding with all its places", of: placeMembers) { $0.places },
      ]
    }

    private static var placeMembers: [JSONMember<AppCheck.Place>] {
      [
        .member("file") { $0.file }, .member("line") { $0.line },
        .member("member", "what it is called there: `google_app_id` in `resources.arsc`") { $0.member },
        .member("target", "the target of an Xcode project") { $0.target },
      ]
    }

    private static func fill(_ page: inout Page, _ report: AppCheck.Report) {
      let findings = report.findings
      let width = findings.map(\.check.displayedWidth).max() ?? 0
      let indent = String(repeating: " ", count: width + 11)
      for finding in findings {
        let (word, tone) = finding.standing.word
        let check = finding.check + String(repeating: " ", count: width - finding.check.displayedWidth)
        let place = finding.places.first?.text.map { "\($0): " } ?? ""
        page.add("\(word)\(check)  \(place)\(finding.found)", tone)
        if finding.standing != .good, finding.places.count > 1 {
          page.add(
            "\(indent)also at: \(finding.places.dropFirst().compactMap(\.text).joined(separator: ", "))")
        }
        if let expected = finding.expected { page.add("\(indent)must be: \(expected)") }
        if let effect = finding.effect { page.add("\(indent)or else: \(effect)") }
      }
      page.add()
      page.add(Finding.summary(findings.map(\.standing)))
      let skipped = report.skipped.map(\.check)
      if !skipped.isEmpty {
        let names = skipped.indices.filter { skipped.firstIndex(of: skipped[$0]) == $0 }.map { skipped[$0] }
        page.add(
          "\(Phrase.count(skipped.count, "value")) could not be checked: \(names.joined(separator: ", ")).")
      }
    }
  }

  struct Expect: AsyncParsableCommand, PrintsDocument {
    static let configuration = CommandConfiguration(
      abstract: "Prints what an app has to match, for app check --against on another machine.",
      discussion: """
        It is a JSON document with the bouncer's public keys; the team, topics and environment of each Apple key; the \
        Firebase projects; http.public_url; and the apps of nextcloud.apps_file. It holds no secret: developers and build \
        pipelines may have it.

        push-bouncer app expect > expected.json
        """)

    @OptionGroup var options: GlobalOptions

    static var documents: [JSONDocument] {
      .of(AppCheck.Service.members, note: "The same with and without `--json`. There is no secret in it.")
    }

    func run() async throws {
      printLine(JSON.object(AppCheck.Service.members.object(try App.service(options, isNeeded: true))).text)
    }
  }
}

extension Result<AppCheck.Report, Fault> {
  fileprivate var report: AppCheck.Report? { try? get() }
  fileprivate var fault: Fault? { if case .failure(let fault) = self { fault } else { nil } }
}
