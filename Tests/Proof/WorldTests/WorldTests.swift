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
    .init("proxy-ends-the-renewed", "no living registration ends", seed: 80),
  ]

  @Test(arguments: wrong)
  func `find a wrong proxy`(_ wrong: StandInCase) throws { try wrong.find("--nextcloud") }
}

@Suite("Simulated worlds with the built-in chat server")
struct ChatWorldTests {
  @Test
  func `keep every promise`() throws {
    let worlds = try Worlds.run("--chat", "--seed", "1", "--worlds", "14")
    #expect(worlds.status == 0, "\(worlds.output)")
  }

  /// Chat servers as they must not be.
  static let wrong: [StandInCase] = [
    .init("chat-keeps-key", "readable to whom it is for", seed: 2),
    .init("chat-forgets-registrations", "a registration arrives", seed: 101),
    .init("chat-hears-no-deaths", "a dead registration ends", seed: 1),
  ]

  @Test(arguments: wrong)
  func `find a wrong chat server`(_ wrong: StandInCase) throws { try wrong.find("--chat") }
}

@Suite("Simulated worlds with the built-in Nextcloud server")
struct NextcloudServerWorldTests {
  @Test(arguments: [[], ["--nextcloud", "--chat"]])
  func `keep every promise`(_ more: [String]) throws {
    let worlds = try Worlds.run(["--nextcloud-server", "--seed", "1", "--worlds", "8"] + more)
    #expect(worlds.status == 0, "\(worlds.output)")
  }

  /// Nextcloud servers as they must not be.
  static let wrong: [StandInCase] = [
    .init("nextcloud-forgetful-queue", "what is promised arrives", seed: 12),
    .init("nextcloud-endless-lease", "pauses have bounds", seed: 50),
    .init("nextcloud-short-lease", "nothing is sent before its time", seed: 1),
    .init("nextcloud-hears-no-pause", "nothing is sent before its time", seed: 25),
    .init("nextcloud-forgets-removals", "nothing arrives twice", seed: 9),
    .init("nextcloud-ignores-unknown", "what is unknown is not sent to", seed: 1),
    .init("nextcloud-keeps-who-has-left", "who has left is told nothing", seed: 5),
    .init("nextcloud-keeps-former-logins", "nothing arrives twice", seed: 1),
    .init("nextcloud-takes-all-back", "what is promised arrives", seed: 12),
    .init("nextcloud-outage-is-success", "what is promised arrives", seed: 12),
    .init("nextcloud-failed-is-unknown", "no living registration ends", seed: 13),
  ]

  @Test(arguments: wrong)
  func `find a wrong Nextcloud server`(_ wrong: StandInCase) throws { try wrong.find("--nextcloud-server") }
}

@Suite("Simulated worlds with the Web Push gateway")
struct GatewayWorldTests {
  @Test(arguments: [[], ["--nextcloud"]])
  func `keep every promise`(_ more: [String]) throws {
    let worlds = try Worlds.run(["--gateway", "--seed", "1", "--worlds", "14"] + more)
    #expect(worlds.status == 0, "\(worlds.output)")
  }

  /// A body is asked for while a clock is ahead; a push is in the outbox although the database's answer was lost.
  @Test(arguments: ["197", "961"])
  func `keep every promise about bodies that wait`(seed: String) throws {
    let worlds = try Worlds.run("--gateway", "--as-it-is", "--seed", seed)
    #expect(worlds.status == 0, "\(worlds.output)")
  }

  /// Gateways as they must not be.
  static let wrong: [StandInCase] = [
    .init("gateway-topic-is-everybodys", "what is promised arrives", seed: 8),
    .init("gateway-promises-too-much", "what is promised arrives", seed: 4),
    .init("gateway-forgets-its-time", "nothing arrives after its time", seed: 9),
    .init("gateway-forgets-bodies", "what waits can be fetched", seed: 2),
    .init("gateway-lists-everybodys", "what waits is listed", seed: 2),
    .init("gateway-lists-less", "what waits is listed", seed: 2),
    .init("gateway-keeps-token", "no living registration ends", seed: 2),
    .init("gateway-trouble-is-death", "no living registration ends", seed: 4),
    .init("gateway-tells-no-deaths", "a dead registration ends", seed: 1),
  ]

  @Test(arguments: wrong)
  func `find a wrong gateway`(_ wrong: StandInCase) throws { try wrong.find("--gateway") }
}

@Suite("Simulated worlds with strangers whose devices are refused")
struct HostileWorldTests {
  @Test(arguments: [[], ["--nextcloud"], ["--gateway"]])
  func `keep every promise, and nobody's notifications are late`(_ more: [String]) throws {
    let worlds = try Worlds.run(["--hostile", "--seed", "1", "--worlds", "6"] + more)
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

@Suite("Simulated worlds with the upstream bouncer")
struct UpstreamWorldTests {
  @Test
  func `keep every promise`() throws {
    let worlds = try Worlds.run("--upstream", "--seed", "1", "--worlds", "24")
    #expect(worlds.status == 0, "\(worlds.output)")
  }

  /// Their chat servers name others' tokens as their users', and it may fail them alone.
  @Test
  func `keep every promise, and nobody's notifications are late, beside strangers with a second app`() throws
  {
    let worlds = try Worlds.run("--upstream", "--hostile", "--seed", "1", "--worlds", "4")
    #expect(worlds.status == 0, "\(worlds.output)")
  }

  static let believing = StandInCase("upstream-ends-tokens", "no living registration ends", seed: 3)

  @Test
  func `find a service that ends what is others' by its word`() throws {
    try Self.believing.find("--upstream", "--hostile")
  }

  @Test
  func `keep every promise where it calls many devices gone`() throws {
    let worlds = try Worlds.run("--story", "upstream-lies", "--as-it-is")
    #expect(worlds.status == 0, "\(worlds.output)")
  }

  /// What must not be made of its answers.
  static let wrong: [StandInCase] = [
    .init("upstream-outbox-forgets", "what is promised arrives", seed: 6),
    .init("upstream-failure-is-success", "what is promised arrives", seed: 11),
    .init("upstream-tells-no-deaths", "a dead registration ends", seed: 19),
    .init("upstream-names-others", "no device is stranded", seed: 7),
    .init("upstream-gets-all", "no phone is told from both sides", seed: 3),
    .init("upstream-hears-no-updates", "nothing arrives twice", seed: 6),
    .init("upstream-never-revives", "no device is stranded", seed: 28),
  ]

  @Test(arguments: wrong)
  func `find a service that is wrong about it`(_ wrong: StandInCase) throws { try wrong.find("--upstream") }

  @Test
  func `find a service that believes all that it says`() throws {
    try StandInCase("never-holds", "no living registration ends", story: "upstream-lies").find()
  }
}
