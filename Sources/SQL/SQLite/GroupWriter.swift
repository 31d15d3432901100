/// Commits the writes of several callers in one transaction.
struct GroupWriter: Sendable {
  let worker: SQLiteWorker
  let observer: DatabaseObserver?

  /// Does all jobs and answers each once its work is on the disk, or is known to be undone.
  func perform(_ jobs: [SQLiteJob]) {
    do {
      try worker.withHandle { handle in
        var waiting = jobs[...]
        while !waiting.isEmpty {
          if waiting.count == 1 {
            commit(waiting.removeFirst(), on: handle)
          } else {
            commit(&waiting, on: handle)
          }
        }
      }
    } catch {
      for job in jobs { job.fail(error) }
    }
  }

  /// A transaction for one job, which needs no savepoint: for one SQLite would keep a copy of each page that the
  /// job changes, in a file if they are many.
  private func commit(_ job: SQLiteJob, on handle: SQLiteHandle) {
    let connection = SQLiteConnection(handle)
    do {
      try handle.run("BEGIN IMMEDIATE")
      let answer = try connection.alone { try job.run(connection) }
      try observed { try handle.run("COMMIT") }
      answer()
    } catch {
      if handle.isInTransaction { try? handle.run("ROLLBACK") }
      job.fail(error)
    }
  }

  /// One transaction with all of `waiting`, or with those up to one that made SQLite roll it back.
  ///
  /// Failures too are answered only after the commit: a job may have failed over what another
  /// one of the group has written.
  private func commit(_ waiting: inout ArraySlice<SQLiteJob>, on handle: SQLiteHandle) {
    let connection = SQLiteConnection(handle)
    var done: [(job: SQLiteJob, answer: SQLiteJob.Answer)] = []
    do {
      do {
        try handle.run("BEGIN IMMEDIATE")
      } catch {
        done = waiting.map { ($0, {}) }
        waiting = []
        throw error
      }
      while let job = waiting.popFirst() {
        done.append((job, answer(job, on: connection)))
        if let lost = connection.lost { throw lost }
      }
      try observed { try handle.run("COMMIT") }
      for (_, answer) in done { answer() }
    } catch {
      if handle.isInTransaction { try? handle.run("ROLLBACK") }
      for (job, _) in done { job.fail(error) }
    }
  }

  /// Runs a job inside the transaction and returns what to tell its caller when that is kept.
  private func answer(_ job: SQLiteJob, on connection: SQLiteConnection) -> SQLiteJob.Answer {
    do {
      return job.needsSavepoint
        ? try connection.savepoint { try job.run(connection) } : try job.run(connection)
    } catch {
      return { job.fail(error) }
    }
  }

  private func observed(_ commit: () throws -> Void) rethrows {
    let start = ContinuousClock.now
    defer { observer?(.commit, .now - start) }
    try commit()
  }
}
