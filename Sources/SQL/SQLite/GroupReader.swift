/// Runs the reads of several callers in one snapshot.
struct GroupReader: Sendable {
  let workers: [SQLiteWorker]

  /// Does all jobs, each answered as soon as it is done.
  func perform(_ number: Int, _ jobs: [SQLiteJob]) {
    var waiting = jobs[...]
    do {
      let failure = try workers[number].withHandle { handle -> DatabaseError? in
        do throws(DatabaseError) {
          while !waiting.isEmpty { try snapshot(&waiting, handle) }
          return nil
        } catch {
          return error
        }
      }
      if let failure { throw failure }
    } catch {
      for job in waiting { job.fail(error) }
    }
  }

  /// As many of `waiting` as one snapshot lasts: an error may end it, and those after it get another.
  private func snapshot(_ waiting: inout ArraySlice<SQLiteJob>, _ handle: SQLiteHandle) throws(DatabaseError)
  {
    try handle.run("BEGIN")
    defer { if handle.isInTransaction { try? handle.run("ROLLBACK") } }
    let connection = SQLiteConnection(handle)
    while connection.lost == nil, let job = waiting.popFirst() {
      do { try job.run(connection)() } catch { job.fail(error) }
    }
  }
}
