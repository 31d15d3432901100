import Testing

@Suite("Simulated worlds in which trouble lasts")
struct SlowWorldTests {
  @Test(arguments: [
    "slow-deaths", "long-outage", "stale-lease", "clock-set-back", "doubted-clock", "unproven-route",
    "odd-answers", "many-leave", "many-wait", "asked-to-wait",
  ])
  func `keep every promise`(story: String) throws {
    let worlds = try Worlds.run("--story", story, "--as-it-is", "--worlds", "2")
    #expect(worlds.status == 0, "\(worlds.output)")
  }

  /// Services that are wrong about time.
  static let wrong: [StandInCase] = [
    .init("forgets-a-burst", "no living registration ends", story: "slow-deaths"),
    .init("pauses-the-route", "arrives at once when all is well", story: "asked-to-wait"),
    .init("pauses-too-long", "pauses have bounds", story: "long-outage"),
    .init("settles-what-others-have", "nothing arrives twice", story: "stale-lease"),
    .init("stays-postponed", "what is promised arrives", story: "clock-set-back"),
    .init("trusts-any-clock", "nothing expires at a doubted clock", story: "doubted-clock"),
    .init("doubts-nothing", "an unproven route ends nothing", story: "unproven-route"),
    .init("tries-the-refused", "what is refused is not sent again", story: "odd-answers"),
    .init("hears-no-pause", "nothing is sent before its time", story: "asked-to-wait"),
  ]

  @Test(arguments: wrong)
  func `find a service that is wrong about time`(_ wrong: StandInCase) throws { try wrong.find() }
}
