/// What a ``DatabaseObserver`` is told the duration of.
package enum DatabaseOperation: String, Sendable, CaseIterable {
  /// A call of ``Database/read(_:)`` or ``Database/query(_:)``, from asking to answer.
  case read
  /// A call of ``Database/write(_:)`` or ``Database/execute(_:)``, from asking to durable.
  case write
  /// One commit, of everything that had gathered.
  case commit
}

/// Told how long each operation took, whether it failed or not. Called on the database's own
/// threads, so it must be quick.
package typealias DatabaseObserver = @Sendable (DatabaseOperation, Duration) -> Void
