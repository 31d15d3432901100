import Testing

@Suite("Simulated worlds with several tenants")
struct TenantWorldTests {
  @Test(arguments: [[], ["--nextcloud"]])
  func `keep every promise`(_ more: [String]) throws {
    let worlds = try Worlds.run(["--tenants", "--seed", "1", "--worlds", "14"] + more)
    #expect(worlds.status == 0, "\(worlds.output)")
  }

  @Test
  func `keep every promise where registrations take the place of others`() throws {
    let worlds = try Worlds.run("--story", "other-names", "--seed", "1", "--worlds", "4")
    #expect(worlds.status == 0, "\(worlds.output)")
  }

  /// Services that mix tenants up.
  static let wrong: [StandInCase] = [
    .init("unregister-forgets-server", "no living registration ends", seed: 1),
    .init("unregister-all-is-all", "no living registration ends", seed: 1),
    .init("encrypted-in-any-realm", "no living registration ends", seed: 6),
    .init("unregister-does-nothing", "who has left is told nothing", seed: 1),
    .init("reach-forgets-server", "every token opens", seed: 1),
    .init("one-app-for-all", "each app has its own topic", seed: 1),
    .init("stale-servers", "what is switched off is refused", seed: 4),
    .init("stale-realms", "what is switched off is refused", seed: 24),
    .init("keeps-credentials", "what is switched off is refused", seed: 5),
    .init("no-grace", "who may call is let in", seed: 10),
    .init("moves-without-registrations", "no living registration ends", seed: 5),
    .init("realms-are-everybodys", "nobody calls for others", seed: 1),
    .init("keeps-realms", "a realm can be let go", story: "other-names"),
    .init("drops-what-waits", "what is promised arrives", story: "other-names"),
    .init("renews-nothing", "no living registration ends", story: "other-names"),
    .init("dead-at-one-only", "a dead token is dead everywhere", seed: 1),
    .init("mixes-endpoints", "readable to whom it is for", seed: 3),
    .init("signs-with-another-key", "each push service gets its own signature", seed: 3),
    .init("proxy-checks-no-signature", "signed by whom it is from", seed: 12),
    .init("proxy-forgets-key", "no living registration ends", seed: 12),
  ]

  @Test(arguments: wrong)
  func `find a service that mixes them up`(_ wrong: StandInCase) throws {
    try wrong.find("--tenants", wrong.standIn.hasPrefix("proxy-") ? "--nextcloud" : "--as-it-is")
  }
}
