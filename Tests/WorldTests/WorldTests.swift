import Testing

@Suite("Simulated worlds")
struct WorldTests {
  @Test(arguments: [1, 1001])
  func `keep every promise, in the same worlds every time`(seed: Int) throws {
    let worlds = try Worlds.run("--seed", "\(seed)", "--worlds", "25")
    #expect(worlds.status == 0, "\(worlds.output)")
  }

  @Test
  func `are the same in every byte for the same seed, and others for another`() throws {
    let logs = try ["5", "5", "6"].map { try Worlds.run("--seed", $0, "--log").output }
    // The last line tells how long it took.
    let lines = logs.map { $0.split(separator: "\n").dropLast() }
    #expect(lines[0] == lines[1])
    #expect(lines[0] != lines[2])
    #expect(lines[0].count > 20)
  }
}
