import HTTP
import Testing

@testable import ZulipBouncer

@Suite("The address of a contact")
struct ContactEmailTests {
  @Test(arguments: [
    "admin@example.org", "a.b+c@sub.example.org", "admin@[192.0.2.1]", "admin@b\u{fc}cher.example",
  ])
  func `is one that Django takes`(email: String) throws {
    #expect(try ContactEmail(parameter: email).text == email)
  }

  @Test(arguments: [
    "", "admin", "admin@", "@example.org", "admin@localhost:25", "ad min@example.org", "admin@example",
    "admin@example.org\n", "a..b@example.org", "admin@example.org.",
    String(repeating: "a", count: 310) + "@example.org",
  ])
  func `is refused if it is none`(email: String) {
    #expect(throws: APIError.self) { try ContactEmail(parameter: email) }
  }
}
