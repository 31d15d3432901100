package import Testing

/// A trait that makes something for each test that has it, and ends it after the test.
///
/// A test takes it from ``current``, so that its body needs no closure.
package struct Fixture<Value: Sendable>: SuiteTrait, TestTrait, TestScoping {
  package typealias Use = @Sendable (Value) async throws -> Void

  private let make: @Sendable (_ use: @escaping Use) async throws -> Void

  /// - Parameter make: makes it, lets it be used, and ends it.
  package init(_ make: @escaping @Sendable (_ use: @escaping Use) async throws -> Void) {
    self.make = make
  }

  package var isRecursive: Bool { true }

  /// What was made for the test that runs.
  package static var current: Value {
    guard let value = Made.values[ObjectIdentifier(Value.self)] as? Value else {
      fatalError("The test has no trait that makes \(Value.self)")
    }
    return value
  }

  package func provideScope(
    for test: Test, testCase: Test.Case?, performing function: @concurrent @Sendable () async throws -> Void
  ) async throws {
    let (values, made) = AsyncStream.makeStream(of: Value.self)
    let (uses, used) = AsyncStream.makeStream(of: Never.self)
    // The test runs outside of `make`, which may only be given what can escape.
    try await withThrowingTaskGroup(of: Void.self) { group in
      group.addTask { [make] in
        defer { made.finish() }
        try await make { value in
          made.yield(value)
          for await _ in uses {}
        }
      }
      for await value in values {
        defer {
          used.finish()
          made.finish()
        }
        let all = Made.values.merging([ObjectIdentifier(Value.self): value]) { $1 }
        try await Made.$values.withValue(all) { try await function() }
      }
      try await group.waitForAll()
    }
  }
}

private enum Made {
  /// By type.
  @TaskLocal static var values: [ObjectIdentifier: any Sendable] = [:]
}
