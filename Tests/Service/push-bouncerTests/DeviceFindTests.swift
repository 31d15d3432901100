import Foundation
import HTTP
import TestSupport
import Testing

/// `device list`, `find` and `show`, and `stats`.
@Suite(.place()) struct DeviceFindTests {
  private let place = Fixture<Workplace>.current

  private static let token = String(repeating: "0a1b2c3d", count: 8)

  @Test func `A token is looked for from a file, and shown nowhere`() async throws {
    _ = try await place.run("init")
    let file = place.folder.appending(path: "token")
    try Data("\(Self.token)\n".utf8).write(to: file)
    let found = try await place.run("device", "find", "--token-file", file.path)
    #expect(found.status == 1)
    #expect(found.output.contains("Nothing is registered for this token."))
    let refused = try await place.run("device", "find", Self.token)
    #expect(refused.status == 1 && refused.errors.contains("--token-file"))
    for text in [found.output, found.errors, refused.output, refused.errors] {
      #expect(!text.contains(Self.token.prefix(16)))
    }
    let document = try await place.run("device", "find", "--token-file", file.path, "--json").json
    #expect(document["devices"] == [] && document["advice"]?.string?.isEmpty == false)
  }

  @Test func `What is asked for wrongly, or is not there, is told`() async throws {
    _ = try await place.run("init")
    for wrong in [
      ["device", "find"], ["device", "find", "a", "--user", "7"], ["device", "find", "--token-id", "a"],
      ["device", "find", "--identifier", "a"], ["device", "show", "nonsense"], ["device", "list"],
      ["stats", "--hours", "0"], ["stats", "--hours", "1", "--days", "1"],
    ] {
      let result = try await place.run(wrong)
      #expect(result.status == 64, "\(wrong)")
    }
    let none = try await place.run("device", "list", "--server", "none.example.org")
    #expect(none.status == 1 && none.output.contains("register_server"))
    let empty = try await place.run("stats")
    #expect(empty.status == 0 && empty.output.contains("no notifications"))
    // One that was sent just now may be missing.
    #expect(empty.output.contains("newer ones are not included yet"))
    let stranger = try await place.run("stats", "--server", "none.example.org")
    #expect(stranger.status == 1)
  }
}
