internal import Foundation
package import NextcloudProxy
package import Operations
package import Providers
package import Sealing

/// Compares an app's source or built package with this service, without changing either.
package struct AppCheck: Sendable {
  /// What this service has, which an app must fit.
  package struct Service: Sendable {
    let bouncerKeys: BouncerKeyring
    let credentials: Credentials
    let publicURL: String?
    let apps: NextcloudApps

    /// - Parameters:
    ///   - publicURL: `http.public_url`
    ///   - apps: the built-in apps and those of `nextcloud.apps_file`.
    package init(
      bouncerKeys: BouncerKeyring, credentials: Credentials, publicURL: String?, apps: NextcloudApps
    ) {
      (self.bouncerKeys, self.credentials) = (bouncerKeys, credentials)
      (self.publicURL, self.apps) = (publicURL, apps)
    }
  }

  /// What was found in one place.
  package struct Finding: Sendable, Hashable {
    /// What was looked at: `bouncer key`, `Firebase project`.
    package let check: String
    package let standing: Operations.Finding.Standing
    /// What is there, or why it could not be looked at.
    package let found: String
    /// The path inside the app; nil if it concerns no single file.
    package var file: String?
    /// Counted from 1; nil in binary files.
    package var line: Int?
    /// What it should be; nil if it is right.
    package var expected: String?
    /// What happens on a phone if it stays; nil if nothing does.
    package var effect: String?
  }

  /// The app and everything that was found.
  package struct Report: Sendable {
    /// `Zulip, its source`
    package let app: String
    package let findings: [Finding]
    package var isGood: Bool { !findings.contains { $0.standing == .fault } }
  }

  /// An app that has been opened. Afterwards its files are not looked up again, so root may become another user.
  package struct App: Sendable {
    /// What its source says; nil for a built package, which is mapped into memory.
    fileprivate let source: AppFacts?
    fileprivate let files: AppFiles
    fileprivate let path: String

    /// - Parameter path: a folder with an app's source, or an APK, AAB or IPA.
    /// - Throws: a ``Fault`` if there is nothing of that kind.
    package init(path: String) throws(Fault) {
      self.path = path
      (files, source) = try AppCheck.bounded(path) {
        let files = try AppFiles(path: path, Budget())
        return (files, files.isArchive ? nil : try AppFacts(source: files))
      }
    }
  }

  /// Reads what a stranger may have made: beyond the bounds, it is no app.
  private static func bounded<Result>(_ path: String, _ body: () throws -> Result) throws(Fault) -> Result {
    do {
      return try body()
    } catch let exceeded as Budget.Exceeded {
      throw Fault(
        source: path, "has \(exceeded.what), as no app that is known",
        advice: "give the folder of one app without its builds, or a package as it was built")
    } catch {
      throw Fault(error)
    }
  }

  private let service: Service

  package init(service: Service) { self.service = service }

  /// - Throws: a ``Fault`` if it is no app that is known.
  package func report(on app: App) throws(Fault) -> Report {
    let isPackage = app.files.isArchive
    let facts = try Self.bounded(app.path) {
      isPackage ? try AppFacts(package: app.files, candidates: candidates) : app.source
    }
    guard let facts else {
      throw Fault(
        source: app.path, "is no app that this command knows",
        advice: """
          give the source folder or the APK, AAB or IPA of Zulip (zulip-flutter), Nextcloud Talk or Nextcloud Files; \
          Documentation/Apps.md says what to change in others
          """)
    }
    var comparison = Comparison(app: facts, service: service, isPackage: isPackage)
    return Report(
      app: "\(facts.product.rawValue), \(isPackage ? "a built package" : "its source")",
      findings: comparison.findings())
  }

  private var candidates: AppFacts.Candidates {
    let proxies = [service.publicURL, Vendor.proxy].compactMap(\.self)
    return .init(
      bouncerKeys: service.bouncerKeys.all.map(\.pair.publicKeyBase64) + [Vendor.bouncerKey],
      firebaseProjects: service.credentials.fcm.map(\.projectID) + ["zulip-android"],
      proxies: proxies + proxies.map { "\($0)/" })
  }
}

/// Values of the vendors' own apps: where one of them is still there, the app is not rebuilt.
enum Vendor {
  static let bouncerKey = "mm4F/3WLqECY637NulC5j/ZeHkmpwmtlfIxwt8MfREM="
  static let proxy = "https://push-notifications.nextcloud.com"
  static let firebase: Set = ["zulip-android", "835904834568", "nextcloud-a7dea", "829118773643"]
  static let team = "66KHCWMEYB"
  static let groups: Set = [
    "group.com.zulip.app", "group.com.nextcloud.Talk", "group.com.nextcloud.apps",
    "group.it.twsweb.Crypto-Cloud",
  ]
  static let names = [
    "org.zulip.Zulip", "com.zulipmobile", "com.nextcloud.talk2", "com.nextcloud.Talk", "com.nextcloud.client",
    "it.twsweb.Nextcloud",
  ]

  /// Whether a bundle id or package name is the vendor's, or that of one of the vendor's extensions.
  static func owns(_ id: String) -> Bool { names.contains { id == $0 || id.hasPrefix("\($0).") } }
}
