import TestDatabase
import TestSupport
import Testing

@testable import SQL

@Suite("Trouble with a PostgreSQL server")
struct PostgreSQLTroubleTests {
  /// A function that fails with a state, as servers and those in between do that nobody can call upon.
  private static let fail = """
    CREATE FUNCTION fail(state TEXT) RETURNS BIGINT LANGUAGE plpgsql AS
      $$BEGIN RAISE EXCEPTION 'no' USING ERRCODE = state; END$$
    """

  @Test
  func `such as none being there is waited for, not asked again and again`() async throws {
    var options = PostgreSQLDatabase.Options()
    options.waitLimit = 0.5
    let start = ContinuousClock.now
    let error = try await databaseError {
      try await PostgreSQLDatabase.open(url: "postgres:///d?host=/nowhere", options: options)
    }
    #expect(error?.code == .unreachable)
    // The pauses grow, and the last one would have ended too late.
    #expect(ContinuousClock.now - start > .milliseconds(150))
  }

  @Test(.needsPostgreSQL)
  func `that calls a connection broken has it closed at once, and no transaction stays open`() async throws {
    try await withPostgreSQL(script: Self.fail) { database, _ in
      let pid = try await database.execute("SELECT pg_backend_pid()::bigint").integer
      let error = try await databaseError { try await database.execute("SELECT fail('08006')") }
      #expect(error?.code == .connectionLost)
      try await eventually("the end of the connection") {
        try await database.integer("SELECT count(*) FROM pg_stat_activity WHERE pid = $1", .integer(pid)) == 0
      }
    }
  }

  @Test(.needsPostgreSQL)
  func `in a transaction has it run again, whatever its body makes of the error`() async throws {
    struct Mistaken: Error {}
    try await withPostgreSQL(script: Self.fail) { database, _ in
      let runs = Counter()
      let answer = try await database.write { connection in
        runs.increment()
        guard runs.value == 1 else { return try connection.query("SELECT CAST(7 AS BIGINT)").integer }
        do { return try connection.query("SELECT fail('40001')").integer } catch { throw Mistaken() }
      }
      #expect(answer == 7)
      #expect(runs.value == 2)
    }
  }

  /// Beside many others, ten times may not do: reports that many servers send at once, for example.
  @Test(.needsPostgreSQL)
  func `that is a conflict again and again lasts no longer than a call waits`() async throws {
    try await withPostgreSQL(script: Self.fail) { database, _ in
      let runs = Counter()
      let answer = try await database.write { connection in
        runs.increment()
        if runs.value <= 15 { _ = try connection.query("SELECT fail('40001')") }
        return runs.value
      }
      #expect(answer == 16)
    }
    var options = PostgreSQLDatabase.Options()
    // Shorter than the pauses between ten runs.
    options.waitLimit = 0.1
    try await withPostgreSQL(options: options, script: Self.fail) { database, _ in
      let runs = Counter()
      let error = try await databaseError {
        try await database.write { connection in
          runs.increment()
          _ = try connection.query("SELECT fail('40001')")
        }
      }
      #expect(error?.code == .serializationFailure)
      #expect(runs.value == 10)
    }
  }
}
