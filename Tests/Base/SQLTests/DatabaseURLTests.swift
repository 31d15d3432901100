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
    "postgres://user:secret@host:0/name", "postgres://user:secret@host:x/name",
  ])
  func `anything else is refused without being repeated`(text: String) {
    let error = #expect(throws: DatabaseError.self) { try DatabaseURL(text) }
    #expect(error?.code == .invalidURL)
    #expect(error?.description.contains("secret") == false)
  }

  @Test(arguments: ["p@secret", "p/secret", "p@s/secret", "p%secret", "1/secret", "1?secret=1/"])
  func `an unencoded password is refused, with how to encode it`(password: String) {
    let error = #expect(throws: DatabaseError.self) {
      try DatabaseURL("postgres://user:\(password)@host/name")
    }
    #expect(error?.code == .invalidURL)
    #expect(error?.message.contains("percent-encoded: %40 for @") == true, "\(String(describing: error))")
    #expect(error?.description.contains("secret") == false)
  }

  @Test(arguments: [
    ("p%40s%2Fw%23rd%25", "postgres://host/name"), ("p#ss?w:rd", "postgres://host/name"),
    ("pässword", "postgres://host/name"),
  ])
  func `a password may have any character`(password: String, shown: String) throws {
    #expect(try DatabaseURL("postgres://user:\(password)@host/name").description == shown)
  }

  @Test
  func `several hosts and a socket are shown as they are`() throws {
    #expect(
      try DatabaseURL("postgres://u:p@a:5432,[2001:db8::1]:5433/d?target_session_attrs=any").description
        == "postgres://a:5432,[2001:db8::1]:5433/d")
    #expect(try DatabaseURL("POSTGRES:///d?host=/run/postgresql").description == "postgres:///d")
  }

  @Test(arguments: [
    ("pgbouncer=true", "the option pgbouncer", "leave it out"),
    ("sslmode=disable&schema=x", "the option schema", "csearch_path%3D"),
  ])
  func `an option that does not exist is named`(options: String, named: String, remedy: String) {
    let error = #expect(throws: DatabaseError.self) {
      try DatabaseURL("postgres://user:secret@host/name?\(options)")
    }
    #expect(error?.code == .invalidURL)
    #expect(error?.message.contains(named) == true && error?.message.contains(remedy) == true)
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
