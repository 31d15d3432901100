import Foundation
import TestSupport
import Testing

@testable import SQL

@Suite("Files that go away while the database is open")
struct MovedFilesTests {
  /// What happens to the files of an open database.
  enum Event: String, CaseIterable {
    case moved, removed, replaced, folderMoved, wal, shm

    func happen(in folder: URL) throws {
      let files = FileManager.default
      let names = ["", "-wal", "-shm"].map { "test.sqlite\($0)" }
      let away = folder.appending(path: "away")
      switch self {
      case .moved:
        try files.createDirectory(at: away, withIntermediateDirectories: true)
        for name in names {
          try files.moveItem(at: folder.appending(path: name), to: away.appending(path: name))
        }
      case .removed: try files.removeItem(atPath: folder.databasePath)
      case .replaced:
        let copy = folder.appending(path: "copy").path
        try files.copyItem(atPath: folder.databasePath, toPath: copy)
        #expect(rename(copy, folder.databasePath) == 0)
      case .folderMoved: #expect(rename(folder.path, "\(folder.path)-away") == 0)
      case .wal, .shm: try files.removeItem(atPath: "\(folder.databasePath)-\(rawValue)")
      }
    }

    func end(in folder: URL) throws {
      let files = FileManager.default
      switch self {
      case .moved:
        let away = folder.appending(path: "away")
        for name in try files.contentsOfDirectory(atPath: away.path) {
          try files.moveItem(at: away.appending(path: name), to: folder.appending(path: name))
        }
      case .folderMoved: #expect(rename("\(folder.path)-away", folder.path) == 0)
      case .removed, .replaced, .wal, .shm: break
      }
    }

    /// Whether ``end(in:)`` puts the same files back.
    var canEnd: Bool { self == .moved || self == .folderMoved }
  }

  private let insertion = Statement("INSERT INTO t VALUES (1)")

  @Test(arguments: Event.allCases)
  func `nothing that is written then is promised, and reads go on`(event: Event) async throws {
    try await withDatabase(script: "CREATE TABLE t (a)") { database, folder in
      _ = try await database.execute(insertion)
      #expect(try await database.integer("SELECT count(*) FROM t") == 1)
      try database.checkFiles()
      try event.happen(in: folder)
      for _ in 0..<2 {
        let error = try await databaseError { try await database.execute(insertion) }
        #expect(error?.code == .moved && error?.isTransient == true)
        #expect(error?.message.hasPrefix(folder.path) == true, "\(error?.message ?? "")")
      }
      await #expect(throws: DatabaseError.self) { try await database.write { _ in } }
      #expect(throws: DatabaseError.self) { try database.checkFiles() }
      // Also over a connection that has read nothing before.
      try await withThrowingTaskGroup(of: Int64?.self) { group in
        for _ in 0..<8 { group.addTask { try await database.integer("SELECT count(*) FROM t") } }
        for try await count in group { #expect(count == 1) }
      }
      try event.end(in: folder)
      if event.canEnd {
        _ = try await database.execute(insertion)
        try database.checkFiles()
        #expect(try await database.integer("SELECT count(*) FROM t") == 2)
      }
    }
  }

  @Test
  func `a write under way is no success if the file has gone before its end`() async throws {
    try await withDatabase(script: "CREATE TABLE t (a)") { database, folder in
      let path = folder.databasePath
      let error = try await databaseError {
        try await database.write { [insertion] connection in
          try connection.run(insertion)
          #expect(rename(path, "\(path)-old") == 0)
        }
      }
      #expect(error?.code == .moved)
    }
  }

  @Test
  func `another database that is put there meanwhile is not read`() async throws {
    try await withDatabase(script: "CREATE TABLE t (a)") { database, folder in
      try Event.moved.happen(in: folder)
      let other = try await SQLiteDatabase.open(path: folder.databasePath)
      for sql in ["CREATE TABLE t (a)", "INSERT INTO t VALUES (1)"] {
        _ = try await other.execute(Statement(sql))
      }
      // SQLite may also refuse to read on.
      for _ in 0..<10 { #expect((try? await database.integer("SELECT count(*) FROM t")) != 1) }
      await other.close()
    }
  }

  @Test(arguments: [Event.wal, .shm])
  func `an orderly end brings what was in a lost log into the database`(event: Event) async throws {
    try await withTemporaryFolder { folder in
      let database = try await SQLiteDatabase.open(path: folder.databasePath)
      try await database.write { try $0.runScript("CREATE TABLE t (a); INSERT INTO t VALUES (1)") }
      try event.happen(in: folder)
      await database.close()
      let again = try await SQLiteDatabase.open(path: folder.databasePath)
      #expect(try await again.integer("SELECT count(*) FROM t") == 1)
      await again.close()
    }
  }

  @Test
  func `what was put in its place is left alone at the end`() async throws {
    try await withDatabase(script: "CREATE TABLE t (a)") { database, folder in
      try Event.moved.happen(in: folder)
      let other = try await SQLiteDatabase.open(path: folder.databasePath)
      try await other.write { try $0.runScript("CREATE TABLE t (a); INSERT INTO t VALUES (7)") }
      await database.close()
      #expect(try await other.integer("SELECT count(*) FROM t") == 1)
      #expect(FileManager.default.fileExists(atPath: folder.databasePath + "-wal"))
      await other.close()
    }
  }

  /// As `chmod` and a file system that is mounted again without writing leave a file that is open.
  @Test
  func `a file that may not be written any more takes what it is given until it is closed`() async throws {
    try await withDatabase(script: "CREATE TABLE t (a)") { database, folder in
      #expect(chmod(folder.databasePath, 0o400) == 0)
      _ = try await database.execute(insertion)
      try database.checkFiles()
      #expect(chmod(folder.databasePath, 0o600) == 0)
    }
  }
}
