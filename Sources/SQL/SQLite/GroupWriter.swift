/// Commits the writes of several callers in one transaction.
struct GroupWriter: Sendable {
  let worker: SQLiteWorker
  let observer: DatabaseObserver?

  /// Does all jobs and answers each once its work is on the disk, or is known to be undone.
  func perform(_ jobs: [SQLiteJob]) {
    var waiting = jobs[...]
    do {
      try worker.withHandle { handle throws(DatabaseError) in
        while !waiting.isEmpty {
          if waiting.count == 1 {
            commit(waiting.removeFirst(), on: handle)
          } else {
            commit(&waiting, on: handle)
          }
        }
      }
    } catch {
      for job in waiting { job.caller.fail(error) }
    }
  }

  /// A transaction for one job, which needs no savepoint: for one SQLite would keep a copy of each page that the
  /// job changes, in a file if they are many.
  private func commit(_ job: SQLiteJob, on handle: SQLiteHandle) {
    let connection = SQLiteConnection(handle)
    do {
      try handle.run("BEGIN IMMEDIATE")
      try connection.alone { try job.run(on: connection) }
      try observed { try handle.run("COMMIT") }
      job.caller.succeed()
    } catch {
      if handle.isInTransaction { try? handle.run("ROLLBACK") }
      job.caller.fail(error)
    }
  }

  /// One transaction with all of `waiting`, or with those up to one that made SQLite roll it back.
  ///
  /// Failures too are answered only after the commit: a job may have failed over what another
  /// one of the group has written.
  private func commit(_ waiting: inout ArraySlice<SQLiteJob>, on handle: SQLiteHandle) {
    let connection = SQLiteConnection(handle)
    var done: [(caller: Caller, failure: (any Error)?)] = []
    do {
      do {
        try handle.run("BEGIN IMMEDIATE")
      } catch {
        done = waiting.map { ($0.caller, nil) }
        waiting = []
        throw error
      }
      while let job = waiting.popFirst() {
        done.append((job.caller, failure(of: job, on: connection)))
        if let lost = connection.lost { throw lost }
      }
      try observed { try handle.run("COMMIT") }
      for (caller, failure) in done {
        if let failure { caller.fail(failure) } else { caller.succeed() }
      }
    } catch {
      if handle.isInTransaction { try? handle.run("ROLLBACK") }
      for (caller, _) in done { caller.fail(error) }
    }
  }

  private func failure(of job: SQLiteJob, on connection: SQLiteConnection) -> (any Error)? {
    do {
      try job.runUndoably(on: connection)
      return nil
    } catch {
      return error
    }
  }

  private func observed(_ commit: () throws -> Void) rethrows {
    let start = ContinuousClock.now
    defer { observer?(.commit, .now - start) }
    try commit()
  }
}
