import Testing

@Suite("Simulated worlds with a Nextcloud server")
struct NextcloudWorldTests {
  @Test
  func `keep every promise`() throws {
    let worlds = try Worlds.run("--nextcloud", "--seed", "1", "--worlds", "14")
    #expect(worlds.status == 0, "\(worlds.output)")
  }

  /// A push proxy as it must not be, the promise that breaks with it, and the seed with which the world finds that.
  @Test(arguments: [
    (standIn: "proxy-removes-all", promise: "no living registration ends", seed: 1),
    ("proxy-keeps-token", "no living registration ends", 1),
    ("proxy-tells-no-deaths", "a dead registration ends", 1),
    ("proxy-sends-all", "what is promised arrives", 2),
    ("proxy-ends-the-renewed", "what is promised arrives", 11),
    ("outage-is-death", "no living registration ends", 2),
  ])
  func `find a wrong proxy`(standIn: String, promise: String, seed: Int) throws {
    let worlds = try Worlds.run(
      "--nextcloud", "--seed", "\(seed)", "--stand-in", standIn, "--as-it-is")
    #expect(worlds.status == 1)
    #expect(worlds.violation?.contains(": \(promise): ") == true, "\(worlds.violation ?? worlds.output)")
  }
}
