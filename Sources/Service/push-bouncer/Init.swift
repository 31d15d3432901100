import ArgumentParser
import Basics
import Foundation
import HTTP
import NextcloudProxy
import Operator
import Platform
import Providers
import SQL
import Sealing
import Server

/// `init`: sets up a new installation.
struct Init: AsyncParsableCommand, PrintsDocument {
  static let configuration = CommandConfiguration(
    abstract:
      "Writes a commented push-bouncer.yaml, the Keys folder with a first key pair, and the database; overwrites nothing.",
    discussion: """
      Prints the lines to put into the app and into the chat server's settings; run it again to see them again. \
      The database is the one that database.url names. Without --config, an existing push-bouncer.yaml is used: \
      the one in the working folder, else the one in /etc/push-bouncer if the caller may read it, as root may. If there \
      is none, it is written to the working folder.
      """)

  @OptionGroup var options: GlobalOptions
  @Flag(help: "Also prints the lines for Nextcloud's apps; with nextcloud.enabled it always does.")
  var nextcloud = false

  func run() async throws {
    let file =
      options.config
      ?? Configuration.usualFile(workingDirectory: FileManager.default.currentDirectoryPath)
    var options = options
    let isNew = !FileManager.default.fileExists(atPath: file)
    if isNew {
      try FileOwner.become(ofWaysTo: [file])
      // The file is private, because the operator will write secrets into it.
      guard try PrivateFile.write(Configuration.sampleYAML().utf8, to: file, replacing: false) else {
        throw Fault(source: file, "is a link to a file that does not exist", advice: "remove it")
      }
      options.config = file
    }
    let configuration = try options.load()
    let directory = configuration.keys.directory
    // Also creates `storage.key`, unless the database was sealed with another key.
    try await Store.with(options, configuration, making: true) { _ in }
    try KeyFolder.writeReadme(in: directory)
    try KeyFolder.makeFolders(in: directory)
    let files = BouncerKeyFiles(directory: directory)
    let key = try files.list().first { $0.state == .active } ?? files.generate()
    // An earlier init may have been killed when it had made the key.
    try files.sync()
    let instructions = AppInstructions(
      publicKey: key.publicKey, url: configuration.http.publicURL,
      isForNextcloud: nextcloud || configuration.nextcloudProxy.isEnabled)

    let result = Result(
      file: file, configuration: configuration, publicKey: key.publicKey, instructions: instructions)
    options.show(result, Self.document) { page in
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
      var program: String?
      for instruction in instructions.all {
        page.add()
        let then = instruction.then.map { " (then: \($0))" } ?? ""
        page.add(
          "\(instruction.program == program ? "The same" : instruction.program), \(instruction.file)\(then)")
        program = instruction.program
        page.add()
        for line in instruction.lines { page.add("    \(line)", .heading) }
      }
      if configuration.http.publicURL == nil {
        page.add()
        page.add(
          """
          Replace \(AppInstructions.exampleURL) with this service's own address, and set http.public_url to that in \(file).
          """)
      }
      page.add()
      page.add("Next")
      page.add()
      let places = Credentials.types.map {
        "\($0.owner)'s \($0.noun) into \(directory)/\($0.provider.rawValue)"
      }
      page.add("    put \(places.joined(separator: ", "))")
      page.add("    (\(directory)/README.md shows them)")
      for line in Self.nextCommands(for: configuration) { page.add("    \(line)", .heading) }
    }
  }

  static var documents: [JSONDocument] { .of(document) }

  private struct Result {
    let file: String
    let configuration: Configuration
    let publicKey: String
    let instructions: AppInstructions
  }

  private static var document: [JSONMember<Result>] {
    [
      .member("config", "path of the configuration file") { $0.file },
      .member("keys_directory", "path of the key folder") { $0.configuration.keys.directory },
      .member("database", "its URL, without the password") { "\($0.configuration.database.url)" },
      .member("public_key", "the bouncer's public key: 32 bytes in base64") { $0.publicKey },
      .list("instructions", of: AppInstructions.Instruction.members) { $0.instructions.all },
    ]
  }

  /// What to run after `init`. systemd runs the service of the package, and only root has its rights.
  static func nextCommands(for configuration: Configuration) -> [String] {
    let add = "push-bouncer server add --hostname chat.example.org"
    guard configuration.isPackaged, FileManager.default.fileExists(atPath: "/run/systemd/system") else {
      return ["push-bouncer doctor", add, "push-bouncer serve"]
    }
    let put = "sudo install -o push-bouncer -m 600"
    let keys = configuration.keys.directory
    return Credentials.types.map { "\(put) \($0.exampleFiles) \(keys)/\($0.provider.rawValue)" } + [
      "sudo push-bouncer doctor", "sudo \(add)", "sudo systemctl enable --now push-bouncer",
    ]
  }
}

/// The exact values to enter in the apps and in the chat server.
struct AppInstructions {
  /// Lines for one file.
  struct Instruction {
    let program: String
    let file: String
    let lines: [String]
    /// The command to run afterwards.
    let then: String?

    init(_ program: String, _ file: String, _ lines: String..., then: String? = nil) {
      self.program = program
      self.file = file
      self.lines = lines
      self.then = then
    }

    static var members: [JSONMember<Instruction>] {
      [
        .member("program", "the program whose file is to be changed") { $0.program },
        .member("file") { $0.file }, .member("lines", "to put there") { $0.lines },
        .member("then", "the command to run afterwards") { $0.then },
      ]
    }
  }

  static let exampleURL = "https://push.example.org"

  let all: [Instruction]

  /// - Parameter url: the service's public address; nil if it is not known yet.
  init(publicKey: String, url: String?, isForNextcloud: Bool) {
    let url = url ?? Self.exampleURL
    let app = "Zulip's app (zulip-flutter)"
    let zulip = [
      Instruction(
        app, "lib/model/push_device.dart",
        "static final bouncerPublicKey = base64Decode('\(publicKey)');"),
      Instruction(
        app, "lib/firebase_options.dart", "const kFirebaseOptionsAndroid = FirebaseOptions(",
        "  appId: '...',              // google-services.json: client[].client_info.mobilesdk_app_id",
        "  messagingSenderId: '...',  // project_info.project_number",
        "  projectId: '...',          // project_info.project_id",
        "  apiKey: '...',             // client[].api_key[].current_key", ");"),
      Instruction(
        "Zulip's server", "/etc/zulip/settings.py", "ZULIP_SERVICE_PUSH_NOTIFICATIONS = True",
        "ZULIP_SERVICES_URL = \"\(url)\"", then: "manage.py register_server"),
    ]
    let nextcloud = [
      Instruction(
        "Nextcloud Files for iOS", "Brand/NCBrand.swift",
        "var pushNotificationServerProxy: String = \"\(url)\""),
      Instruction(
        "Nextcloud Talk for iOS", "NextcloudTalk/Settings/NCAppBranding.m",
        "NSString * const pushNotificationServer = @\"\(url)\";"),
      Instruction(
        "Nextcloud Files for Android", "app/src/gplay/res/values/setup.xml",
        "<string name=\"push_server_url\" translatable=\"false\">\(url)</string>"),
      Instruction(
        "Nextcloud Talk for Android", "app/src/main/res/values/setup.xml",
        "<string name=\"nc_push_server_url\" translatable=\"false\">\(url)</string>"),
    ]
    all = zulip + (isForNextcloud ? nextcloud : [])
  }
}
