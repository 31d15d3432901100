import Foundation
import SQL
import TestSupport
import Testing

@Suite("Database URLs")
struct DatabaseURLTests {
  @Test(arguments: [
    ("sqlite:push-bouncer.sqlite", "push-bouncer.sqlite"),
    ("sqlite:data/a b%20.sqlite", "data/a b%20.sqlite"),
    ("sqlite:/var/lib/a.sqlite", "/var/lib/a.sqlite"),
    ("sqlite:///var/lib/a.sqlite", "/var/lib/a.sqlite"),
    ("SQLITE:a?b", "a?b"),
  ])
  func `an SQLite URL is a path`(text: String, path: String) throws {
    #expect(try DatabaseURL(text).sqlitePath == path)
  }

  @Test(arguments: [
    "", "push-bouncer.sqlite", "sqlite:", "sqlite:folder/", "sqlite://host/file", "sqlite:a\0b",
    "mysql://user:secret@host/name", "postgres:secret", "postgres://us er:secret@host/name",
  ])
  func `anything else is refused without being repeated`(text: String) {
    let error = #expect(throws: DatabaseError.self) { try DatabaseURL(text) }
    #expect(error?.code == .invalidURL)
    #expect(error?.description.contains("secret") == false)
  }

  @Test(arguments: ["postgres", "postgresql"])
  func `a password never shows`(scheme: String) throws {
    let url = try DatabaseURL("\(scheme)://user:secret@db.example.org:5433/push?password=secret")
    #expect(url.description == "postgres://db.example.org:5433/push")
    var dumped = ""
    dump(url, to: &dumped)
    #expect(!"\(dumped) \(String(reflecting: url))".contains("secret"))
    #expect(url.sqlitePath == nil)
  }

  @Test
  func `an SQLite URL opens its file`() async throws {
    try await withTemporaryFolder { folder in
      let database = try await openDatabase(url: DatabaseURL("sqlite:\(folder.databasePath)"))
      #expect(try await database.integer("SELECT 1") == 1)
      await database.close()
      #expect(FileManager.default.fileExists(atPath: folder.databasePath))
    }
  }
}
