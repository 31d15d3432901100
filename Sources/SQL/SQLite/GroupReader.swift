import GRDB

/// Runs the reads of several callers in one snapshot.
struct GroupReader: Sendable {
  let pool: DatabasePool
  let texts: SQLiteTexts

  /// Does all jobs, each answered as soon as it is done.
  func perform(_ jobs: [SQLiteJob]) {
    var waiting = jobs[...]
    while !waiting.isEmpty {
      let count = waiting.count
      do {
        try pool.read { handle in
          let connection = SQLiteConnection(handle, texts)
          // An error may have ended the snapshot: those after it get another.
          while connection.lost == nil, let job = waiting.popFirst() {
            do { try job.run(connection)() } catch { job.fail(error) }
          }
        }
      } catch  where waiting.count == count {
        for job in waiting { job.fail(DatabaseError(error)) }
        return
      } catch {
        // The end of a snapshot whose readers have their answers.
      }
    }
  }
}
