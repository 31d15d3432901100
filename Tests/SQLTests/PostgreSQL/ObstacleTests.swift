import Foundation
import SQL
import Testing

@Suite struct ObstacleTests {
  @Test(arguments: [
    ("postgres://u:hunter2@127.0.0.1:1/d", #""127.0.0.1", port 1 failed: Connection refused"#),
    ("postgres://u:hunter2@nosuch.invalid/d", #"could not translate host name "nosuch.invalid""#),
    ("postgres://u:hunter2@/d?host=/nowhere", #""/nowhere/.s.PGSQL.5432" failed: No such file or directory"#),
  ])
  func `Why there is no connection is told in libpq's words, without the password`(
    _ url: String, _ message: String
  ) async throws {
    let error = try await #require(throws: DatabaseError.self) {
      _ = try await openDatabase(url: try DatabaseURL(url))
    }
    #expect(error.code == .unreachable && error.message.contains(message), "\(error)")
    #expect(!error.message.contains("hunter2") && !error.message.contains("\n"))
  }
}
