import HTTP
import TestSupport
import Testing

@testable import Basics
@testable import Operator
@testable import push_bouncer

@Suite struct UsageTests {
  private var place: Workplace { Fixture.current }

  @Test(
    .place(),
    arguments: [
      ["nonsense"], ["server", "nonsense"], ["server", "add"], ["server", "list", "--nonsense"],
      ["server", "add", "--hostname", "not a host"],
      ["server", "add", "--hostname", "a.example", "--org-id", "1"],
      ["server", "add", "--hostname", "a.example", "--org-key", "short"],
      ["keys", "list", "--set", "http.port"],
      ["keys", "remove"], ["serve", "--http.port"], ["serve", "--clock-offset", "soon", "--http.port", "0"],
    ])
  func `Wrong usage is 64`(_ arguments: [String]) async throws {
    let result = try await place.run(arguments)
    #expect(result.status == 64)
    #expect(result.output == "")
    #expect(result.errors.contains("Error:"))
    #expect(!place.exists("push-bouncer.sqlite"))
  }

  @Test(
    .place(),
    arguments: [
      (["server", "add", "--hostname", "a.example", "--org-id", "1"], "server add"),
      (["server", "add"], "server add"), (["keys", "list", "--set", "http.port"], "keys list"),
      (["serve", "--clock-offset", "soon"], "serve"), (["stats", "--hours", "0"], "stats"),
      (["server", "list", "--nonsense"], "server list"), (["server", "nonsense"], "server"),
    ])
  func `Wrong usage shows how the command itself is used`(_ arguments: [String], _ command: String)
    async throws
  {
    let errors = try await place.run(arguments).errors
    #expect(errors.contains("Usage: push-bouncer \(command) "), "\(errors)")
    #expect(errors.contains("See 'push-bouncer \(command) --help'"), "\(errors)")
  }

  @Test(
    .place(),
    arguments: [
      (["servr"], "serve"), (["rotues", "list"], "routes"), (["doctro", "--json"], "doctor"),
      (["server", "lst"], "server list"),
      (["help", "sever"], "server"), (["help", "server", "ad"], "server add"),
      (["doctor", "--http-prot", "1"], "--http-port"), (["doctor", "--http.prot=1"], "--http.port"),
      (["keys", "list", "--jsn"], "--json"), (["serve", "--admin-tokn", "x"], "--admin-token"),
    ])
  func `What was perhaps meant is named`(_ arguments: [String], _ meant: String) async throws {
    let result = try await place.run(arguments)
    #expect(result.status == 64)
    #expect(result.errors.contains("Did you mean '\(meant)'?"), "\(result.errors)")
  }

  @Test(
    .place(),
    arguments: [
      ["nonsense"], ["server", String(repeating: "list", count: 9999)], ["doctor", "--nonsensical"],
    ])
  func `Nothing is guessed where nothing is like it`(_ arguments: [String]) async throws {
    let result = try await place.run(arguments)
    #expect(result.status == 64)
    #expect(!result.errors.contains("Did you mean"), "\(result.errors)")
  }

  @Test(.place(), arguments: [["serve"], ["keys", "list"], ["server", "list"], ["init"]])
  func `A wrong configuration is one and names key and file`(_ arguments: [String]) async throws {
    try place.write("push-bouncer.yaml", "http:\n  prot: 1\n")
    let result = try await place.run(arguments)
    #expect(result.status == 1)
    #expect(result.errors.contains("http.prot"))
    #expect(result.errors.contains("push-bouncer.yaml"))
    #expect(!place.exists("push-bouncer.sqlite"))
    #expect(!place.exists("Keys"))
  }

  @Test(.place()) func `A file that is not there is one and named`() async throws {
    let result = try await place.run("keys", "list", "--config", "missing.yaml")
    #expect(result.status == 1)
    #expect(result.errors.contains("missing.yaml"))
  }

  @Test(
    .place(begun: true),
    arguments: [
      ["keys", "list"], ["keys", "generate"], ["server", "list"],
    ])
  func `A warning is given once`(_ arguments: [String]) async throws {
    let result = try await place.run(arguments, environment: ["PUSH_BOUNCER_NONSENSE": "1"])
    #expect(result.status == 0)
    #expect(result.errors.split(separator: "\n").count { $0.contains("PUSH_BOUNCER_NONSENSE") } == 1)
    #expect(!result.output.contains("NONSENSE"))
  }

  @Test(.place()) func `The program tells its version and what it was built from`() async throws {
    let result = try await place.run("--version")
    #expect(result.status == 0)
    #expect(result.output == "push-bouncer \(Version.number) (\(Version.commit ?? "built from source"))\n")
  }

  @Test(.place()) func `Every command explains itself`() async throws {
    let commands = [
      [], ["serve"], ["init"], ["doctor"], ["demo"], ["device"], ["simulate"], ["keys"],
      ["keys", "remove"],
      ["server"], ["server", "add"], ["account"], ["account", "add"],
    ]
    for command in commands {
      let result = try await place.run(command + ["--help"])
      #expect(result.status == 0)
      #expect(result.output.contains("USAGE"))
      #expect(!result.output.contains("clock-offset"))
    }
  }

  @Test(.place())
  func `Every key of the configuration is in the help of serve and in what the shells complete`()
    async throws
  {
    let help = try await place.run("serve", "--help").output
    #expect(help.contains("CONFIGURATION"))
    for key in Configuration.settings.map(\.key) {
      #expect(help.contains("--\(SettingArguments.option(key)) <\(key)>"), "\(key)")
    }
    for shell in ["bash", "zsh", "fish"] {
      let script = try await place.run("--generate-completion-script", shell).output
      for key in Configuration.settings.map(\.key) {
        #expect(script.contains(SettingArguments.option(key)), "\(shell): \(key)")
      }
    }
    let port = try await place.run("init", "--http-port", "no number")
    #expect(port.status == 1 && port.errors.contains("http.port"))
  }

  @Test func `Keys of the configuration become settings`() {
    let rewrite = SettingArguments.rewrite
    #expect(rewrite(["serve", "--http.port", "1"]) == ["serve", "--set", "http.port=1"])
    #expect(rewrite(["serve", "--http-port=1"]) == ["serve", "--set", "http.port=1"])
    #expect(
      rewrite(["--http.rate_limit.per_address", "0", "--http-rate-limit-per-address=1/1s"])
        == ["--set", "http.rate_limit.per_address=0", "--set", "http.rate_limit.per_address=1/1s"])
    #expect(rewrite(["--admin.token=a=b"]) == ["--set", "admin.token=a=b"])
    #expect(rewrite(["--http.port"]) == ["--set", "http.port"])
    #expect(rewrite(["--admin.token="]) == ["--set", "admin.token="])
    #expect(rewrite(["--admin.token", "--odd"]) == ["--set", "admin.token=--odd"])
  }

  @Test(arguments: [
    [], ["serve", "--config", "a.yaml"], ["--json"], ["--http.prot", "1"], ["http.port", "1"],
    ["--", "--http.port", "1"], ["--set", "http.port=1"], ["--hostname=a", ""],
  ])
  func `What is no key is left as it is`(arguments: [String]) {
    #expect(SettingArguments.rewrite(arguments) == arguments)
  }
}
