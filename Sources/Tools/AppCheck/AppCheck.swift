package import Basics
package import Platform

/// Compares an app's source or built package with this service, without changing either.
package struct AppCheck: Sendable {
  /// Where something stands.
  package struct Place: Sendable, Hashable {
    /// The path inside the app; nil if it concerns no single file.
    package var file: String?
    /// Counted from 1; nil in binary files.
    package var line: Int?
    /// What it is called in a table of a package: `google_app_id`.
    package var member: String?
    /// The target of an Xcode project that has it.
    package var target: String?
  }

  /// What was found, in one place or in several.
  package struct Finding: Sendable, Hashable {
    /// What was checked: `bouncer key`, `Firebase project`.
    package let check: String
    package let standing: Platform.Finding.Standing
    /// What is there; nil if nothing is, or if it could not be read.
    package let value: String?
    /// What is to be known of it, or why it could not be checked.
    package let remark: String?
    package internal(set) var places: [Place]
    /// What it should be; nil if it is right.
    package let expected: String?
    /// What happens on a phone if it stays; nil if nothing does.
    package let effect: String?

    package var found: String { [value, remark].compactMap(\.self).joined(separator: ": ") }
    package var file: String? { places.first?.file }
    package var line: Int? { places.first?.line }
  }

  /// The app and everything that was found.
  package struct Report: Sendable {
    /// `Zulip, its source`
    package let app: String
    /// `gplay`; nil for a package, and where there are none.
    package let flavor: String?
    /// The configuration of Xcode's project that is published.
    package let configuration: String?
    package let findings: [Finding]
    /// `flavour gplay, configuration Release`; nil for a package, and where there are none.
    package var variant: String? {
      let parts = [flavor.map { "flavour \($0)" }, configuration.map { "configuration \($0)" }].compactMap(
        \.self)
      return parts.isEmpty ? nil : parts.joined(separator: ", ")
    }
    /// Whether it fits, as far as it could be checked.
    package var isGood: Bool { !findings.contains { $0.standing == .fault } }
    package var skipped: [Finding] { findings.filter { $0.standing == .skipped } }
  }

  /// An app that has been opened. Afterwards its files are not looked up again, so root may become another user.
  package struct App: Sendable {
    /// What its source says; nil for a built package, which is mapped into memory.
    fileprivate let source: AppFacts?
    fileprivate let files: AppFiles
    fileprivate let path: String

    /// - Parameters:
    ///   - path: a folder with an app's source, or an APK, AAB or IPA.
    ///   - flavor: which of the flavours of an Android app; nil: the one that is published.
    /// - Throws: a ``Fault`` if there is nothing of that kind.
    package init(path: String, flavor: String? = nil) throws(Fault) {
      self.path = path
      (files, source) = try AppCheck.bounded(path) {
        let files = try AppFiles(path: path, Budget())
        let wanted = flavor.map { Name($0) }
        return (files, files.archive == nil ? try SourceReader.facts(of: files, flavor: wanted) : nil)
      }
    }
  }

  /// Reads untrusted files: what exceeds the bounds is refused.
  private static func bounded<Result>(_ path: String, _ body: () throws -> Result) throws(Fault) -> Result {
    do { return try body() } catch let exceeded as Budget.Exceeded {
      throw Fault(
        source: path, "has \(exceeded.what), which no known app has",
        advice: "give the folder of one app without its builds, or a package as it was built")
    } catch { throw Fault(error) }
  }

  private let service: Service

  package init(service: Service) { self.service = service }

  /// - Throws: a ``Fault`` if it is no app that is known.
  package func report(on app: App) throws(Fault) -> Report {
    let isPackage = app.files.archive != nil
    let facts = try Self.bounded(app.path) {
      isPackage ? try PackageReader(files: app.files, service: service).facts() : app.source
    }
    guard let facts else {
      throw Fault(
        source: app.path, "is no app that this command knows",
        advice: """
          give the source folder or the APK, AAB or IPA of Zulip (zulip-flutter), Nextcloud Talk or Nextcloud Files; \
          Documentation/Apps.md says what to change in others
          """)
    }
    var comparison = Comparison(expected: .init(app: facts, service: service, isPackage: isPackage))
    return Report(
      app: "\(facts.product.rawValue), \(isPackage ? "a built package" : "its source")",
      flavor: facts.flavor?.text, configuration: facts.configuration?.text, findings: comparison.findings())
  }
}
