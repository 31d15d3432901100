import AppCheck
import ArgumentParser
import Foundation
import HTTP
import Logging
import NextcloudProxy
import Operations
import Server

/// `app ...`: the apps that are built for this service.
struct App: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Checks an app that was built, or is to be built, for this service.", subcommands: [Check.self])
}

extension App {
  struct Check: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      abstract:
        "Compares an app's source, or its APK, AAB or IPA, with this service; exits 1 if the two do not fit.",
      discussion: """
        Knows Zulip (zulip-flutter), Nextcloud Talk and Nextcloud Files, for Android and iOS, and brands of them. Looks at \
        the bouncer's public key or the push proxy's address, Firebase project, package name, bundle ids, team, app groups, \
        APNs environment and User-Agent, and compares them with the configuration, the Keys folder and \
        nextcloud.apps_file. Of a compiled app it reads what it can, and says what it could not look at. Nothing is \
        changed.
        """)

    @OptionGroup var options: GlobalOptions
    @Argument(help: "The folder with the app's source, or a built package.") var path: String

    func run() async throws {
      // The app is opened before root becomes the service's user, who may not be allowed to read it.
      let app = try FileOwner.acting(onWayTo: path) { try AppCheck.App(path: path) }
      let configuration = try options.load(isNeeded: false)
      // Without any keys nothing could be compared: says so if they are only out of this user's reach.
      if !FileManager.default.fileExists(atPath: configuration.keys.directory) { _ = try options.load() }
      let folder = KeyFolder(
        directory: configuration.keys.directory, defaultProject: configuration.fcm.defaultProject,
        logger: Logger(label: "app") { _ in SwiftLogNoOpLogHandler() })
      let keys = folder.load()
      for problem in keys.problems {
        note("\(configuration.keys.directory)/\(problem.file): \(problem.message)")
      }
      let report = try AppCheck(
        service: .init(
          bouncerKeys: keys.bouncer, credentials: keys.credentials, publicURL: configuration.http.publicURL,
          apps: NextcloudApps.configured(configuration.nextcloud))
      ).report(on: app)
      options.show(["app": .string(report.app), "findings": report.findings.json(Self.columns)]) { page in
        page.add("This is \(report.app).")
        page.add()
        Self.fill(&page, report.findings)
      }
      if !report.isGood { throw ExitCode.failure }
    }

    private static var columns: [ReportColumn<AppCheck.Finding>] {
      [
        .member("check") { .string($0.check) },
        .member("standing") { .string($0.standing.name) },
        .member("found") { .string($0.found) },
        .member("file") { $0.file.map(JSON.string) ?? .null },
        .member("line") { $0.line.map { .integer(Int64($0)) } ?? .null },
        .member("expected") { $0.expected.map(JSON.string) ?? .null },
        .member("effect") { $0.effect.map(JSON.string) ?? .null },
      ]
    }

    private static func fill(_ page: inout Page, _ findings: [AppCheck.Finding]) {
      let width = findings.map(\.check.displayedWidth).max() ?? 0
      let indent = String(repeating: " ", count: width + 11)
      for finding in findings {
        let (word, tone) = finding.standing.word
        let check = finding.check + String(repeating: " ", count: width - finding.check.displayedWidth)
        let place = finding.file.map { file in file + (finding.line.map { ":\($0)" } ?? "") + ": " } ?? ""
        page.add("\(word)\(check)  \(place)\(finding.found)", tone)
        if let expected = finding.expected { page.add("\(indent)must be: \(expected)") }
        if let effect = finding.effect { page.add("\(indent)or else: \(effect)") }
      }
      page.add()
      page.add(Finding.summary(findings.map(\.standing)))
    }
  }
}
