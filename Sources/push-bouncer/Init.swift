import ArgumentParser
import Foundation
import HTTP
import Operations
import Sealing
import Server

/// `init`: the first run.
struct Init: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract:
      "Writes a commented push-bouncer.yaml, the Keys folder with a first key pair, and the database; overwrites nothing.",
    discussion: """
      Prints the lines to put into the app and into the chat server's settings; run it again to see them again. \
      The database is the one that database.url names.
      """)

  @OptionGroup var options: GlobalOptions
  @Flag(help: "Prints the lines for Nextcloud's apps, too, as it does by itself with nextcloud.enabled.")
  var nextcloud = false

  func run() async throws {
    let file =
      options.config
      ?? Configuration.usualFile(workingDirectory: FileManager.default.currentDirectoryPath)
    var options = options
    let isNew = !FileManager.default.fileExists(atPath: file)
    if isNew {
      try FileOwner.become(ofWaysTo: [file])
      // Secrets will stand in it.
      guard try PrivateFile.write(Configuration.sampleYAML().utf8, to: file, replacing: false) else {
        throw Fault(source: file, "is a link that leads nowhere", advice: "remove it")
      }
      options.config = file
    }
    let configuration = try options.load()
    let directory = configuration.keys.directory
    // With storage.key, which is never made beside a database that was sealed with another.
    try await Store.with(options, configuration, making: true) { _ in }
    try KeyFolder.writeReadme(in: directory)
    let files = BouncerKeyFiles(directory: directory)
    let key = try files.list().first { $0.state == .active } ?? files.generate()
    let instructions = AppInstructions(
      publicKey: key.publicKey, url: configuration.http.publicURL,
      isForNextcloud: nextcloud || configuration.nextcloud.isEnabled)

    options.show(
      [
        "config": .string(file), "keys": .string(directory),
        "database": .string("\(configuration.database.url)"), "public_key": .string(key.publicKey),
        "lines": .array(instructions.all.map(\.json)),
      ]
    ) { page in
      page.add(isNew ? "Wrote \(file)." : "\(file) was there already.")
      page.add(
        """
        The database is \(configuration.database.url), the keys are in \(directory). Back both up: without storage.key the \
        database cannot be read.
        """)
      page.add()
      page.add("Your bouncer's public key")
      page.add()
      page.add("    \(key.publicKey)", .heading)
      for instruction in instructions.all {
        page.add()
        page.add("\(instruction.title), \(instruction.file)")
        page.add()
        for line in instruction.lines { page.add("    \(line)", .heading) }
      }
      if configuration.http.publicURL == nil {
        page.add()
        page.add(
          "\(AppInstructions.exampleURL) stands for this service's own address: set http.public_url to it.")
      }
      page.add()
      page.add("Next")
      page.add()
      page.add("    put Apple's key into \(directory)/apns, Google's service account into \(directory)/fcm")
      page.add("    (\(directory)/README.md shows both)")
      for line in [
        "push-bouncer doctor", "push-bouncer server add --hostname chat.example.org", "push-bouncer serve",
      ] {
        page.add("    \(line)", .heading)
      }
    }
  }
}

/// What to write where in the apps and in the chat server, to the letter.
struct AppInstructions {
  /// Lines of a file.
  struct Instruction {
    let title: String
    let file: String
    let lines: [String]

    var json: JSON {
      ["for": .string(title), "file": .string(file), "lines": .array(lines.map(JSON.string))]
    }
  }

  static let exampleURL = "https://push.example.org"

  let all: [Instruction]

  /// - Parameter url: nil if it is not known yet.
  init(publicKey: String, url: String?, isForNextcloud: Bool) {
    let url = url ?? Self.exampleURL
    var all = [
      Instruction(
        title: "Zulip's app (zulip-flutter)", file: "lib/model/push_device.dart",
        lines: ["static final bouncerPublicKey = base64Decode('\(publicKey)');"]),
      Instruction(
        title: "The same", file: "lib/firebase_options.dart",
        lines: [
          "const kFirebaseOptionsAndroid = FirebaseOptions(",
          "  appId: '...',              // google-services.json: client[].client_info.mobilesdk_app_id",
          "  messagingSenderId: '...',  // project_info.project_number",
          "  projectId: '...',          // project_info.project_id",
          "  apiKey: '...',             // client[].api_key[].current_key", ");",
        ]),
      Instruction(
        title: "Zulip's server", file: "/etc/zulip/settings.py (then: manage.py register_server)",
        lines: ["ZULIP_SERVICE_PUSH_NOTIFICATIONS = True", "ZULIP_SERVICES_URL = \"\(url)\""]),
    ]
    if isForNextcloud {
      all += [
        Instruction(
          title: "Nextcloud Files for iOS", file: "Brand/NCBrand.swift",
          lines: ["var pushNotificationServerProxy: String = \"\(url)\""]),
        Instruction(
          title: "Nextcloud Talk for iOS", file: "NextcloudTalk/Settings/NCAppBranding.m",
          lines: ["NSString * const pushNotificationServer = @\"\(url)\";"]),
        Instruction(
          title: "Nextcloud Files for Android", file: "app/src/gplay/res/values/setup.xml",
          lines: ["<string name=\"push_server_url\" translatable=\"false\">\(url)</string>"]),
        Instruction(
          title: "Nextcloud Talk for Android", file: "app/src/main/res/values/setup.xml",
          lines: ["<string name=\"nc_push_server_url\" translatable=\"false\">\(url)</string>"]),
      ]
    }
    self.all = all
  }
}
