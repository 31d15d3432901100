import Testing

@Suite("A world with a part that is wrong")
struct StandInTests {
  /// A part as it must not be, the promise that breaks with it, and the seed with which the world finds that. A change of
  /// the service may shift what happens: the worlds that follow find it then.
  @Test(arguments: [
    (standIn: "short-lease", promise: "nothing arrives twice", seed: 2),
    ("keeps-in-clear", "nothing secret in the database", 1),
    ("forgetful-outbox", "what is promised arrives", 6),
    ("never-revives", "no living registration ends", 3),
    ("forgets-removals", "nothing arrives twice", 2),
    ("outage-is-death", "no living registration ends", 2),
  ])
  func `is found`(standIn: String, promise: String, seed: Int) throws {
    let worlds = try Worlds.run(
      "--seed", "\(seed)", "--worlds", "60", "--stand-in", standIn, "--as-it-is")
    #expect(worlds.status == 1)
    #expect(worlds.violation?.contains(": \(promise): ") == true, "\(worlds.violation ?? worlds.output)")
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
