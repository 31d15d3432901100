import Foundation
import HTTP
import Operator
import TestSupport
import Testing

@Suite(.place()) struct InitTests {
  private let place = Fixture<Workplace>.current

  private func mode(_ url: URL) throws -> Int {
    (try FileManager.default.attributesOfItem(atPath: url.path)[.posixPermissions] as? NSNumber)?.intValue
      ?? -1
  }

  @Test func `The first run writes everything that is needed`() async throws {
    let result = try await place.run("init", "--json")
    #expect(result.status == 0)
    let key = try #require(try result.json["public_key"]?.string)
    let settings = try result.json["instructions"]?.elements.last
    #expect(settings?["file"] == "/etc/zulip/settings.py" && settings?["then"] == "manage.py register_server")
    #expect(try place.text(of: "push-bouncer.yaml") == Configuration.sampleYAML())
    #expect(try mode(place.folder.appending(path: "push-bouncer.yaml")) == 0o600)
    #expect(try place.text(of: "Keys/README.md") == KeyFolder.readme)
    #expect(try mode(place.folder.appending(path: "Keys/storage.key")) == 0o600)
    let files = try FileManager.default.contentsOfDirectory(
      atPath: place.folder.appending(path: "Keys/bouncer").path)
    #expect(files.count == 1)
    #expect(try place.text(of: "Keys/bouncer/\(files[0])").contains(key))
    #expect(try mode(place.folder.appending(path: "Keys/bouncer/\(files[0])")) == 0o600)
    // What is moved there must not become a file of that name.
    for folder in ["apns", "bouncer", "fcm"] {
      #expect(place.exists("Keys/\(folder)/."))
      #expect(try mode(place.folder.appending(path: "Keys/\(folder)")) == 0o700)
    }
  }

  @Test func `As text it says what to put where`() async throws {
    let result = try await place.run("init")
    #expect(result.status == 0)
    for text in [
      "ZULIP_SERVICE_PUSH_NOTIFICATIONS = True", #"ZULIP_SERVICES_URL = "https://push.example.org""#,
      "The same, lib/firebase_options.dart\n",
      "Zulip's server, /etc/zulip/settings.py (then: manage.py register_server)\n", "server add --hostname",
      "storage.key", "Keys/README.md", "http.public_url",
    ] {
      #expect(result.output.contains(text))
    }
    #expect(
      result.output.firstMatch(
        of:
          #/lib\/model\/push_device.dart\n\n    static final bouncerPublicKey = base64Decode\('[A-Za-z0-9+\/]{43}='\);\n/#
      )
        != nil)
    #expect(!result.output.contains("Nextcloud"))
    // A command finds what it has made.
    #expect(try await place.run("server", "list").status == 0)
  }

  @Test(arguments: [["--nextcloud"], ["--nextcloud-enabled", "true"]])
  func `For Nextcloud it says what its apps want`(_ arguments: [String]) async throws {
    let result = try await place.run(
      ["init", "--http-public-url", "https://push.example.net/"] + arguments)
    #expect(result.status == 0)
    for text in [
      "Brand/NCBrand.swift\n\n    var pushNotificationServerProxy: String = \"https://push.example.net\"\n",
      "NCAppBranding.m\n\n    NSString * const pushNotificationServer = @\"https://push.example.net\";\n",
      "    <string name=\"push_server_url\" translatable=\"false\">https://push.example.net</string>\n",
      "    <string name=\"nc_push_server_url\" translatable=\"false\">https://push.example.net</string>\n",
    ] {
      #expect(result.output.contains(text))
    }
    #expect(!result.output.contains("push.example.org"))
  }

  @Test func `The second run overwrites nothing`() async throws {
    try place.write("push-bouncer.yaml", "http.public_url: https://push.example.net\n")
    let first = try await place.run("init", "--json")
    try place.write("Keys/README.md", "mine")
    let storageKey = try place.text(of: "Keys/storage.key")
    let second = try await place.run("init")
    #expect(second.status == 0)
    let key = try #require(try first.json["public_key"]?.string)
    #expect(second.output.contains(key))
    #expect(second.output.contains("was there already"))
    #expect(second.output.contains("https://push.example.net"))
    #expect(try place.text(of: "push-bouncer.yaml") == "http.public_url: https://push.example.net\n")
    #expect(try place.text(of: "Keys/README.md") == "mine")
    #expect(try place.text(of: "Keys/storage.key") == storageKey)
    #expect(
      try FileManager.default.contentsOfDirectory(atPath: place.folder.appending(path: "Keys/bouncer").path)
        .count
        == 1)
  }

  @Test func `A file in the place of a folder is named`() async throws {
    try place.write("Keys/fcm", "{}")
    let result = try await place.run("init")
    #expect(result.status == 1)
    #expect(result.errors.contains("Keys/fcm is no folder"), "\(result.errors)")
    #expect(try place.text(of: "Keys/fcm") == "{}")
  }

  @Test func `A named file is written where it is named`() async throws {
    let result = try await place.run("init", "--config", "my.yaml", "--keys.directory", "Secrets")
    #expect(result.status == 0)
    #expect(place.exists("my.yaml"))
    #expect(place.exists("Secrets/storage.key"))
    #expect(!place.exists("Keys"))
    #expect(!place.exists("push-bouncer.yaml"))
  }
}
