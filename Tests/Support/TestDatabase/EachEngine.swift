public import SQL
public import Testing

/// Runs each test of a suite once with every engine that there is.
public struct EachEngine: SuiteTrait, TestTrait, TestScoping {
  @TaskLocal fileprivate static var engine = DatabaseEngine.sqlite

  /// Also in suites within the suite.
  public var isRecursive: Bool { true }

  /// Runs a test with one engine after the other.
  public func provideScope(
    for test: Test, testCase: Test.Case?, performing function: @Sendable () async throws -> Void
  ) async throws {
    for engine in DatabaseEngine.available {
      try await Self.$engine.withValue(engine) { try await function() }
    }
  }
}

extension Trait where Self == EachEngine {
  /// Runs each test once with every engine, which the test finds as ``TestDatabase/engine``: without
  /// `TEST_POSTGRESQL_URL` that is SQLite alone.
  public static var eachEngine: Self { EachEngine() }
}

extension TestDatabase {
  /// The engine that the test is to use; SQLite outside of ``EachEngine``.
  public static var engine: DatabaseEngine { EachEngine.engine }
}
