import Testing

@Suite("Simulated worlds with the built-in chat server")
struct ChatWorldTests {
  @Test
  func `keep every promise`() throws {
    let worlds = try Worlds.run("--chat", "--seed", "1", "--worlds", "14")
    #expect(worlds.status == 0, "\(worlds.output)")
  }

  /// A chat server as it must not be, the promise that breaks with it, and the seed with which the world finds that.
  @Test(arguments: [
    (standIn: "chat-keeps-key", promise: "readable to whom it is for", seed: 2),
    ("chat-forgets-registrations", "a registration arrives", 56),
    ("chat-hears-no-deaths", "a dead registration ends", 1),
  ])
  func `find a wrong chat server`(standIn: String, promise: String, seed: Int) throws {
    let worlds = try Worlds.run("--chat", "--seed", "\(seed)", "--stand-in", standIn, "--as-it-is")
    #expect(worlds.status == 1)
    #expect(worlds.violation?.contains(": \(promise): ") == true, "\(worlds.violation ?? worlds.output)")
  }
}
