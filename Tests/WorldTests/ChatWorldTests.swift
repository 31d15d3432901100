import Testing

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
