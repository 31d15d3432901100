import Foundation
import Testing

/// A part as it must not be, the promise that breaks with it, and how the world finds that. A change of the service may
/// shift what happens: the worlds after the seed find it then.
struct StandInCase: CustomTestStringConvertible {
  let standIn: String
  let promise: String
  let options: [String]

  init(_ standIn: String, _ promise: String, seed: Int) {
    (self.standIn, self.promise, options) = (standIn, promise, ["--seed", "\(seed)"])
  }

  init(_ standIn: String, _ promise: String, story: String) {
    (self.standIn, self.promise, options) = (standIn, promise, ["--story", story])
  }

  var testDescription: String { standIn }

  /// All but those of the push proxy, of the built-in servers, of the gateway, of the upstream bouncer, and of worlds with strangers
  /// or several tenants.
  static let all: [StandInCase] = [
    .init("forgetful-outbox", "what is promised arrives", seed: 6),
    .init("outbox-in-memory", "what is promised arrives", seed: 6),
    .init("promises-too-much", "what is promised arrives", seed: 6),
    .init("short-lease", "nothing arrives twice", seed: 2),
    .init("endless-lease", "nothing arrives twice", seed: 9),
    .init("forgets-removals", "nothing arrives twice", seed: 2),
    .init("legacy-stays", "nothing arrives twice", seed: 47),
    .init("new-ids", "one apns-id", seed: 2),
    .init("compares-nothing", "no living registration ends", seed: 88),
    .init("never-revives", "no living registration ends", seed: 3),
    .init("never-holds", "no living registration ends", story: "bad-hour"),
    .init("believes-everything", "no living registration ends", story: "bad-hour"),
    .init("outage-is-death", "an answer is taken for what it means", seed: 2),
    .init("death-without-its-time", "no living registration ends", seed: 25),
    .init("register-forgets", "no living registration ends", seed: 79),
    .init("register-fails-hard", "no device is stranded", seed: 22),
    .init("nothing-is-death", "what is refused is not sent again", seed: 3),
    .init("deaths-are-not-told", "a dead registration ends", seed: 3),
    .init("no-deadline", "every call is answered", seed: 3),
    .init("keeps-in-clear", "nothing secret in the database", seed: 1),
  ]

  func find(_ more: String...) throws {
    let worlds = try Worlds.run(
      options + more + ["--worlds", "40", "--stand-in", standIn, "--as-it-is"])
    #expect(worlds.status == 1)
    #expect(worlds.violation?.contains(": \(promise): ") == true, "\(worlds.violation ?? worlds.output)")
  }
}

@Suite("A world with a part that is wrong")
struct StandInTests {
  @Test(arguments: StandInCase.all)
  func `is found`(_ wrong: StandInCase) throws { try wrong.find() }

  @Test
  func `has a way to be found, for every part that there is`() throws {
    let named = try Worlds.run("--stand-in", "?").output
    let known = Set(
      named.trimmingCharacters(in: .newlines).split(separator: ": ")[1].split(separator: ", ").map(
        String.init))
    #expect(
      known
        == Set(
          (StandInCase.all + NextcloudWorldTests.wrong + ChatWorldTests.wrong
            + NextcloudServerWorldTests.wrong + GatewayWorldTests.wrong + HostileWorldTests.wrong
            + UpstreamWorldTests.wrong
            + [UpstreamWorldTests.believing]
            + SlowWorldTests.wrong + TenantWorldTests.wrong).map(\.standIn)))
  }

  @Test
  func `is shown in a world made as small as it goes, with the command that lives it again`() throws {
    let found = try Worlds.run("--seed", "2", "--worlds", "60", "--stand-in", "short-lease")
    let command = try #require(found.output.split(separator: "\n").last { $0.hasPrefix("Again: ") })
    let arguments = command.split(separator: " ").dropFirst(2).map(String.init)
    let events = try #require(
      arguments.firstIndex(of: "--only").map { arguments[$0 + 1].split(separator: ",") })
    #expect(events.count < 12)
    let again = try Worlds.run(arguments)
    #expect(again.status == 1)
    #expect(again.violation?.contains(": nothing arrives twice: ") == true)
  }
}
