package import Basics
import Foundation
import HTTP
import Providers
import Registrations
import ZulipServer

extension Configuration {
  /// Reads the configuration. Later sources win: defaults, file, environment, command line.
  ///
  /// - Parameters:
  ///   - file: the file to read; if nil, `push-bouncer.yaml` in the working folder or else in
  ///     ``systemFolder``.
  ///   - isNeeded: whether it is an error that this user may not read the file that is read if none is named;
  ///     otherwise that file is left out.
  ///   - environment: only the variables that begin with `PUSH_BOUNCER_` are read.
  ///   - overrides: values from the command line, by key.
  /// - Returns: the configuration, and warnings about it.
  /// - Throws: ``Fault`` with the key and its place.
  package static func load(
    file: String?, isNeeded: Bool = true, environment: [String: String], overrides: [String: String],
    workingDirectory: String, systemFolder: String = Configuration.systemFolder
  ) throws(Fault) -> (Configuration, warnings: [String]) {
    let source = try ConfigurationSource(
      file: file, isNeeded: isNeeded, environment: environment, overrides: overrides,
      workingDirectory: workingDirectory, systemFolder: systemFolder)
    let reader = SettingsReader(source.values)
    let configuration = SettingsReader.$current.withValue(reader) {
      Configuration(written: source.values, file: source.file)
    }
    if let fault = reader.fault { throw fault }
    try configuration.check()
    return (configuration, source.warnings)
  }

  /// Checks settings that require each other.
  private func check() throws(Fault) {
    var wanting = [
      ("http.tls.certificate_file", http.certificateFile, "http.tls.key_file is", http.keyFile != nil),
      ("http.tls.key_file", http.keyFile, "http.tls.certificate_file is", http.certificateFile != nil),
    ]
    if case .remote = zulipServer.bouncer {
      wanting += [
        ("server.org_id", zulipServer.orgID, "server.bouncer is another bouncer", true),
        ("server.org_key", zulipServer.orgKey, "server.bouncer is another bouncer", true),
      ]
    }
    for (key, value, reason, isWanted) in wanting where value == nil && isWanted {
      throw Fault(source: written[key]?.source, key: key, "must be set when \(reason)")
    }
  }

  /// Where the packages install the configuration file.
  package static let systemFolder = "/etc/push-bouncer"

  /// Whether the file is the one that the packages install.
  package var isPackaged: Bool { file?.hasPrefix("\(Self.systemFolder)/") == true }

  /// The file that `init` uses, and writes if it is missing, if no other is named. It is the system's only for
  /// root, the service's user and others who may read that.
  package static func usualFile(
    workingDirectory: String, systemFolder: String = Configuration.systemFolder
  ) -> String {
    let usual = ConfigurationSource.usualFile(workingDirectory: workingDirectory, systemFolder: systemFolder)
    return usual.flatMap { FileObstacle.reading($0) == nil ? $0 : nil } ?? ConfigurationSource.file
  }

  /// Every key with its effective value, for the log. Secrets are redacted.
  package var effective: [(key: String, value: String)] {
    Self.settings.map { ($0.key, $0.shown(written[$0.key]?.text ?? $0.standard)) }
  }

  /// The keys of ``effective`` whose values differ from the defaults.
  package var changed: [(key: String, value: String)] {
    Self.settings.compactMap { setting in
      guard let text = written[setting.key]?.text, text != setting.standard else { return nil }
      return (setting.key, setting.shown(text))
    }
  }

  /// The keys whose values in a running service are not those of ``effective``, with the service's. `admin.port` is left
  /// out: the service was reached there.
  func differences(in service: [String: String]) -> [(key: String, value: String)] {
    effective.compactMap { key, value in
      service[key].flatMap { $0 == value || key == "admin.port" ? nil : (key, $0) }
    }
  }
}

// MARK: Values that follow from several settings

extension Configuration {
  /// The contact that is sent to push services: `mailto:` and an address, or an `https:` URL; nil if the
  /// operator has set none that push services accept.
  package var webPushContact: String? {
    webPush.contact ?? self.operator.email.flatMap { WebPushSettings.contact("mailto:\($0)") }
      ?? WebPushSettings.contact(publicURL: http.publicURL)
  }
}

// MARK: Values that would let everybody in

extension Configuration {
  /// Values that would let everybody do what only the operator may: `serve` refuses to start with them.
  package var weaknesses: [Fault] {
    var found: [Fault] = []
    if let token = backend.token, Self.isWeak(token) { found.append(Self.weak("backend.token")) }
    if !ClientAddress.isLoopback(admin.host) {
      if let token = admin.token {
        if Self.isWeak(token) { found.append(Self.weak("admin.token")) }
      } else {
        found.append(
          Fault(
            key: "admin.host", "is not a loopback address, and there is no admin.token",
            advice: "set admin.token, or let admin.host be 127.0.0.1"))
      }
    }
    return found
  }

  /// A token that is easy to guess and opens only what everybody on this machine could see without one. It does not keep
  /// `serve` from starting: an update would otherwise stop services that have had one all along.
  package var weakToken: Fault? {
    guard let token = admin.token, Self.isWeak(token), ClientAddress.isLoopback(admin.host) else {
      return nil
    }
    return Self.weak("admin.token")
  }

  private static func weak(_ key: String) -> Fault {
    Fault(
      key: key, "is too easy to guess: use 16 or more random characters",
      advice: "make one: openssl rand -hex 32")
  }

  private static func isWeak(_ token: String) -> Bool { token.utf8.count < 16 || Set(token.utf8).count < 6 }
}
