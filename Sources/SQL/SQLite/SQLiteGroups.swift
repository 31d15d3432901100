/// What one caller wants done on a connection.
struct SQLiteJob: QueuedJob {
  enum Work: Sendable {
    /// One statement, whose rows are kept.
    case statement(Statement, Kept<[Row]>)
    /// Any number of them.
    case body(@Sendable (any Connection) throws -> Void)
  }

  let caller: Caller
  let work: Work

  /// A job waits for its turn, which is never far.
  var deadline: ContinuousClock.Instant? { nil }

  /// Does it in a transaction or a snapshot.
  func run(on connection: SQLiteConnection) throws {
    switch work {
    case .statement(let statement, let rows): rows.value = try connection.query(statement)
    case .body(let body): try body(connection)
    }
  }

  /// Does it so that what it throws undoes what it wrote, and nothing else. SQLite itself undoes a statement that
  /// fails.
  func runUndoably(on connection: SQLiteConnection) throws {
    switch work {
    case .statement: try run(on: connection)
    case .body: try connection.savepoint { try run(on: connection) }
    }
  }
}

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

/// Runs the reads of several callers in one snapshot.
struct GroupReader: Sendable {
  let workers: [SQLiteWorker]

  /// Does all jobs, each answered as soon as it is done.
  func perform(_ number: Int, _ jobs: [SQLiteJob]) {
    var waiting = jobs[...]
    do {
      try workers[number].withHandle { handle throws(DatabaseError) in
        if jobs.count == 1, case .statement(let statement, let rows) = jobs[0].work {
          // It is a snapshot of its own, without the two statements around it that make one.
          rows.value = try handle.queryAlone(statement, mayWait: true)
          jobs[0].caller.succeed()
        } else {
          while !waiting.isEmpty { try snapshot(&waiting, handle) }
        }
      }
    } catch {
      for job in waiting { job.caller.fail(error) }
    }
  }

  /// As many of `waiting` as one snapshot lasts: an error may end it, and those after it get another.
  private func snapshot(
    _ waiting: inout ArraySlice<SQLiteJob>, _ handle: SQLiteHandle
  ) throws(DatabaseError) {
    try handle.run("BEGIN")
    defer { if handle.isInTransaction { try? handle.run("ROLLBACK") } }
    let connection = SQLiteConnection(handle)
    while connection.lost == nil, let job = waiting.popFirst() {
      do {
        try job.run(on: connection)
        job.caller.succeed()
      } catch {
        job.caller.fail(error)
      }
    }
  }
}
