import ArgumentParser
import Foundation
import Operations
import Sealing
import Wire

/// `init`: the first run.
struct Init: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract:
      "Writes a commented push-bouncer.yaml and the Keys folder with a first key pair; overwrites nothing.")

  @OptionGroup var options: GlobalOptions

  func run() async throws {
    let file =
      options.config
      ?? Configuration.usualFile(workingDirectory: FileManager.default.currentDirectoryPath)
    var written: [String] = []
    if !FileManager.default.fileExists(atPath: file) {
      try Data(Configuration.sampleYAML().utf8).write(
        to: URL(fileURLWithPath: file), options: .withoutOverwriting)
      written.append(file)
    }
    var options = options
    options.config = file
    let configuration = try options.load()
    let directory = configuration.keys.directory
    _ = try KeyFolder.storageKey(in: directory)
    try KeyFolder.writeReadme(in: directory)
    let files = BouncerKeyFiles(directory: directory)
    let key = try files.list().first { $0.state == .active } ?? files.generate()
    let url = configuration.http.publicURL ?? "https://push.example.org"

    options.show(
      ["config": .string(file), "keys": .string(directory), "public_key": .string(key.publicKey)],
      """
      \(written.isEmpty ? "\(file) was there already." : "Wrote \(file).") The keys are in \(directory): back them up, above \
      all storage.key, without which the database cannot be read.

      Your bouncer's public key:

          \(key.publicKey)

      In the app (zulip-flutter, lib/model/push_device.dart), the key that registrations are sealed to:

          bouncerPublicKey = '\(key.publicKey)'

      On the chat server, in /etc/zulip/settings.py:

          ZULIP_SERVICE_PUSH_NOTIFICATIONS = True
          ZULIP_SERVICES_URL = "\(url)"

      Then let the server in here, and register it there:

          push-bouncer server add --hostname chat.example.org
          manage.py register_server

      Last, put your Apple key into \(directory)/apns and your Google service account into \(directory)/fcm; \
      \(directory)/README.md says how.
      """)
  }
}
