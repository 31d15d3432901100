package import Basics
import Foundation
import NIOCore
package import SQL

extension Fault {
  /// An error of the database at `url`, which the setting or option `key` names.
  package init(_ error: DatabaseError, of url: DatabaseURL, key: String = "database.url") {
    let obstacle = url.sqlitePath.flatMap { path in
      FileObstacle.writing(path)
        ?? ["-wal", "-shm"].map { path + $0 }.lazy.compactMap(FileObstacle.writing).first
    }
    if let obstacle, [.io, .readOnly, .corrupt, .other].contains(error.code) {
      self.init(obstacle, of: "\(url)", key: key)
      return
    }
    let (problem, advice) = error.words(isFile: url.sqlitePath != nil)
    self.init(key: key, "names \(url): \(problem)", advice: advice)
  }

  /// A sealed database whose storage key is missing. No new key is created for such a database.
  package init(missingStorageKeyOf url: DatabaseURL, in directory: String) {
    self.init(
      source: "\(directory)/storage.key", "is missing, and \(url) was sealed with it",
      advice: "restore the file from a backup or another node: a new key would open nothing")
  }

  /// An error of the configured database, where its URL is not at hand.
  init(_ error: DatabaseError) {
    let (problem, advice) = error.words(isFile: true)
    self.init("the database: \(problem)", advice: advice)
  }
}

extension DatabaseError {
  /// What is wrong with the database, and what to do about it, without a capital letter and a full stop.
  ///
  /// - Parameter isFile: whether it is a file, rather than at a server.
  package func words(isFile: Bool) -> (problem: String, advice: String) {
    switch code {
    case .invalidURL, .invalidArgument: (message, "correct it")
    case .unreachable: (message, adviceOnUnreachable)
    case .loginRefused:
      (
        message,
        """
        correct user and password: in the URL, postgres://USER:PASSWORD@HOST:PORT/NAME, @ : / ? # % are written %40 %3A %2F \
        %3F %23 %25
        """
      )
    case .notAdmitted: (message, "let the server's pg_hba.conf admit this machine, user and database")
    case .databaseMissing: (message, "create it on the server, or correct the URL")
    case .tooManyConnections:
      (message, "wait, or raise the server's max_connections: each node needs up to 9")
    case .starting: (message, "wait until the server is up")
    case .tlsFailed:
      (
        message,
        message.contains("does not support SSL")
          ? "switch TLS on at the server, or add ?sslmode=disable to the URL"
          : """
          see that the server's certificate has not expired and is for the URL's host, and that sslrootcert in the URL is \
          its authority
          """
      )
    case .nameNotResolved:
      (message, "correct the host of the URL, or see whether the resolver of names works")
    case .pooled:
      (
        "a pooler gives each transaction another session of the server",
        "let the pooler pool sessions (pgbouncer: pool_mode = session), or name the server itself"
      )
    case .notPermitted:
      (
        "the user lacks a right: \(message)",
        "make the user the owner of the database, in psql: ALTER DATABASE name OWNER TO user"
      )
    case .connectionLost: ("the connection was lost", "see whether the server runs")
    case .busy:
      isFile
        ? ("another process keeps it locked", "end that process or wait for it")
        : ("the server is too busy, or a lock is held for too long", "wait, or look at what it is doing")
    case .full: ("there is no room left on the disk", "free some space")
    case .readOnly:
      isFile
        ? ("nothing can be written", "let \(FileObstacle.user) write to the file")
        : (
          "nothing can be written: \(message)",
          "name the primary server, or all servers, with commas between"
        )
    case .moved:
      (
        message, "put the same file back, or run the command again: what it has written may be lost"
      )
    case .io: ("the disk or the file system fails", "look at the system's log and at the file's owner")
    case .corrupt:
      ("it is not a database, or it is damaged", "name another file, or restore a backup")
    case .newerSchema:
      ("it belongs to a newer push-bouncer", "run that version, or restore a backup made before it")
    case .changedMigration:
      ("it was made by another build of push-bouncer", "run that build, or restore a backup made by this one")
    case .closed: ("it was closed", "try again")
    case .serializationFailure: ("another process got in the way", "try again")
    default:
      (
        "it refuses what this program asks: \(message)\(constraint.map { " (\($0))" } ?? "")",
        "it may hold another program's tables; otherwise please report this as a bug of push-bouncer"
      )
    }
  }

  /// The advice for libpq's message about a connection that it could not open.
  private var adviceOnUnreachable: String {
    let words: [(String, String)] = [
      ("Connection refused", "see whether the server runs, and listens on that address and port"),
      ("No such file or directory", "see whether the server runs, and which folder its socket is in"),
      ("timeout expired", "see whether the host is right, and whether a firewall blocks it"),
      ("invalid", "correct the options of the URL"),
    ]
    return words.first { message.contains($0.0) }?.1
      ?? "see whether the server runs, and whether host, user, password, database and sslmode of the URL are right"
  }
}

extension Fault {
  /// Converts any error to a fault in this program's words.
  package init(_ error: any Error) {
    switch error {
    case let fault as Fault: self = fault
    case let error as any Readable: self.init("\(error)")
    case let error as DatabaseError: self.init(error)
    case let error as IOError: self.init(FileObstacle(error.errnoCode), of: "a file that it needs")
    case let error as POSIXError: self.init(FileObstacle(error.code.rawValue), of: "a file that it needs")
    case let error as CocoaError:
      let path = error.filePath ?? error.url?.path ?? "a file that it needs"
      if let number = (error.underlying as? POSIXError)?.code.rawValue {
        self.init(FileObstacle(number), of: path)
      } else {
        self.init(source: path, "cannot be used", advice: "check that it exists and may be read")
      }
    case is CancellationError: self.init("it was interrupted", advice: "start it again")
    default:
      self.init(
        "an unexpected error occurred (\(String(reflecting: type(of: error))))",
        advice: "please report it, and what you did before")
    }
  }
}
