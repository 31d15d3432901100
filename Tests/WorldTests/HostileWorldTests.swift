import Testing

@Suite("Simulated worlds with strangers whose devices are refused")
struct HostileWorldTests {
  @Test(arguments: [[], ["--nextcloud"]])
  func `keep every promise, and nobody's notifications are late`(_ more: [String]) throws {
    let worlds = try Worlds.run(["--hostile", "--seed", "1", "--worlds", "12"] + more)
    #expect(worlds.status == 0, "\(worlds.output)")
  }

  /// Services as they must not be.
  static let wrong: [StandInCase] = [
    .init("blames-the-provider", "strangers delay nobody", seed: 2)
  ]

  @Test(arguments: wrong)
  func `find a service that takes a device's trouble for everybody's`(_ wrong: StandInCase) throws {
    try wrong.find("--hostile")
  }
}
