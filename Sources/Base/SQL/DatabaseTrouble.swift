import Synchronization

/// What keeps a database from working, as its connections last met it. They know it while the calls that wait for them
/// do not.
package final class DatabaseTrouble: Sendable {
  package struct Cause: Sendable {
    package let error: DatabaseError
    /// When it was first met, or the trouble before it that has not passed.
    package let since: ContinuousClock.Instant
  }

  /// Writing may fail while reading works.
  private let causes = Mutex<[TransactionKind: Cause]>([:])

  /// The cause that has not passed: of reading, or else of writing.
  var current: Cause? { causes.withLock { $0[.read] ?? $0[.write] } }

  /// Takes note of an error, unless it is about one statement only.
  func met(_ error: any Error, in kind: TransactionKind, since start: ContinuousClock.Instant = .now) {
    guard let error = error as? DatabaseError, error.isOfWholeDatabase else { return }
    causes.withLock { causes in
      causes[kind] = Cause(error: error, since: min(causes[kind]?.since ?? start, start))
    }
  }

  /// Takes note that something was read, or written.
  func passed(_ kind: TransactionKind) {
    causes.withLock { causes in
      causes[.read] = nil
      if kind == .write { causes[.write] = nil }
    }
  }
}

extension DatabaseError {
  /// Whether other calls may meet the same.
  fileprivate var isOfWholeDatabase: Bool {
    code == .corrupt || isTransient && code != .serializationFailure && code != .closed
  }
}
