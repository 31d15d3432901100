package import SQL

extension Fault {
  /// What is wrong with the database at `url`, which the setting or option `key` names.
  package init(_ error: DatabaseError, of url: DatabaseURL, key: String = "database.url") {
    let obstacle = url.sqlitePath.flatMap { path in
      FileObstacle.writing(path)
        ?? ["-wal", "-shm"].map { path + $0 }.lazy.compactMap(FileObstacle.writing).first
    }
    if let obstacle, [.io, .readOnly, .corrupt, .other].contains(error.code) {
      self.init(key: key, "names \(url), which \(obstacle.problem)", advice: obstacle.advice)
      return
    }
    let (problem, advice) = Self.words(error, isFile: url.sqlitePath != nil)
    self.init(key: key, "names \(url): \(problem)", advice: advice)
  }

  /// A sealed database without its key. Another one is never made beside it.
  package init(missingStorageKeyOf url: DatabaseURL, in directory: String) {
    self.init(
      source: "\(directory)/storage.key", "is missing, and \(url) was sealed with it",
      advice: "bring the file back, from a backup or another node: a new one would open nothing")
  }

  /// What is wrong with the database of the configuration, for whoever does not know which that is.
  init(_ error: DatabaseError) {
    let (problem, advice) = Self.words(error, isFile: true)
    self.init("the database: \(problem)", advice: advice)
  }

  private static func words(_ error: DatabaseError, isFile: Bool) -> (problem: String, advice: String) {
    switch error.code {
    case .invalidURL, .invalidArgument: (error.message, "correct it")
    case .unknownHost: (error.message, "correct the host, or look at the name server")
    case .unreachable: (error.message, "start the server, or correct host and port")
    case .notAdmitted: (error.message, "correct user and password, or let it in there")
    case .noDatabase: (error.message, "make it with createdb, or correct the name")
    case .insecure:
      (
        error.message,
        "look at sslmode and sslrootcert in the URL; only where nobody can listen in, sslmode=disable"
      )
    case .connectionLost: ("the connection was lost", "see whether the server runs")
    case .busy:
      isFile
        ? ("another process keeps it locked", "end that process or wait for it")
        : ("the server is too busy", "wait, or look at what it does")
    case .full: ("there is no room left on the disk", "free some space")
    case .readOnly:
      ("nothing can be written", "name the primary server, or let \(FileObstacle.user) write to the file")
    case .io: ("the disk or the file system fails", "look at the system's log and at the file's owner")
    case .corrupt:
      ("it is no database, or damaged", "name another file, or put a backup in its place")
    case .newerSchema:
      ("it belongs to a newer push-bouncer", "run that one, or put back a backup made before it")
    case .changedMigration:
      ("it was made by another build of push-bouncer", "run that one, or put back a backup of this one's")
    case .closed: ("it was closed", "try again")
    case .serializationFailure: ("another process got in the way", "try again")
    default:
      (
        "it refuses what this program asks (\(error.code)\(error.constraint.map { ", \($0)" } ?? ""))",
        "it may hold another program's tables; else report this as a mistake in push-bouncer"
      )
    }
  }
}
