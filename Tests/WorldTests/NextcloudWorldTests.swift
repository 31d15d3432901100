import Testing

@Suite("Simulated worlds with a Nextcloud server")
struct NextcloudWorldTests {
  @Test
  func `keep every promise`() throws {
    let worlds = try Worlds.run("--nextcloud", "--seed", "1", "--worlds", "14")
    #expect(worlds.status == 0, "\(worlds.output)")
  }

  /// A phone has its token again while the clock is behind; a token is refused while it is ahead.
  @Test(arguments: [["--hostile", "--seed", "112", "--only", "9,13,30,48,38"], ["--seed", "90"]])
  func `keep every promise where a clock is wrong`(_ world: [String]) throws {
    let worlds = try Worlds.run(["--nextcloud", "--as-it-is"] + world)
    #expect(worlds.status == 0, "\(worlds.output)")
  }

  /// Push proxies as they must not be.
  static let wrong: [StandInCase] = [
    .init("proxy-removes-all", "no living registration ends", seed: 1),
    .init("proxy-keeps-token", "no living registration ends", seed: 1),
    .init("proxy-tells-no-deaths", "a dead registration ends", seed: 1),
    .init("proxy-sends-all", "what is promised arrives", seed: 2),
    .init("proxy-ends-the-renewed", "what is promised arrives", seed: 11),
  ]

  @Test(arguments: wrong)
  func `find a wrong proxy`(_ wrong: StandInCase) throws { try wrong.find("--nextcloud") }
}
