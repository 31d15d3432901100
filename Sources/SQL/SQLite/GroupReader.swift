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
