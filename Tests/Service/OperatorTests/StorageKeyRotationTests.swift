import Basics
import Foundation
import Registrations
import SQL
import Sealing
import Synchronization
import TestDatabase
import TestSupport
import Testing

@testable import Operator
@testable import Platform

@Suite("A new storage.key") struct StorageKeyRotationTests {
  @Test(arguments: DatabaseEngine.available)
  func `takes the old one's place, says how far it is, and loses nothing`(_ engine: DatabaseEngine)
    async throws
  {
    try await Stage.run(engine) { stage in
      for _ in 0..<2 {
        let old = try stage.text()
        try await stage.register(0..<600, try await stage.key())
        let reports = Mutex<[String]>([])
        let count = try await stage.rotate { sentence in reports.withLock { $0.append(sentence) } }
        #expect(count.resealed >= 600 && count.unreadable == 0)
        let all = count.resealed
        #expect(reports.withLock(\.last) == "\(all) of \(all) values sealed with the new key")
        try await stage.expectChanged(from: old, 0..<600)
      }
    }
  }

  @Test(arguments: DatabaseEngine.available)
  func `may be killed at any moment, lets nobody begin before its end, and goes on where it was`(
    _ engine: DatabaseEngine
  ) async throws {
    try await Stage.run(engine) { stage in
      let old = try stage.text()
      try await stage.register(0..<1200, try await stage.key())
      var refusals = 0
      for moment in 0... {
        do {
          // It gets one operation further than the last time, as long as nothing is sealed yet that the next may skip.
          _ = try await stage.rotate(on: MortalDatabase(stage.database, operations: moment))
          break
        } catch is MortalDatabase.Killed {}
        try #require(moment < 200)
        let key = try KeyFolder.storageKey(in: stage.folder.path)
        do {
          try await Nodes(database: stage.database).join(key)
          // Nothing was sealed with the new one, or everything.
          #expect(try await stage.found(0..<1200, key) == 1200)
        } catch is StorageSeal.Unfinished {
          refusals += 1
          #expect("\(StorageSeal.Unfinished())".contains("run push-bouncer keys rotate-storage"))
          await #expect(throws: StorageSeal.Unfinished.self) {
            try await StorageSeal.matches(key, in: stage.database)
          }
        }
      }
      #expect(refusals > 10)
      try await stage.expectChanged(from: old, 0..<1200)
    }
  }

  @Test(arguments: DatabaseEngine.available)
  func `waits for the end of another process, names it, and changes nothing while it is there`(
    _ engine: DatabaseEngine
  ) async throws {
    try await Stage.run(engine) { stage in
      let old = try stage.text()
      let key = try await stage.key()
      try await stage.register(0..<5, key)
      let other = Nodes(database: stage.database)
      try await other.join(key, isServing: true)
      let fault = await #expect(throws: Fault.self) {
        try await stage.rotate(timeout: .milliseconds(300), silence: .seconds(60))
      }
      let text = "\(try #require(fault))"
      #expect(
        text.hasPrefix("push-bouncer \(Version.text) on \(ProcessInfo.processInfo.hostName), started "),
        "\(text)")
      #expect(text.contains("stop every node"))
      #expect(try stage.text() == old)
      #expect(try await stage.found(0..<5, try await stage.key()) == 5)
      try await Nodes(database: stage.database).join(key)

      // It ends in time; in between nobody begins.
      let reports = Mutex<[String]>([])
      let task = Task {
        try await stage.rotate(timeout: .seconds(60), silence: .seconds(2)) { sentence in
          reports.withLock { $0.append(sentence) }
        }
      }
      await eventually("its wait") {
        reports.withLock { $0.contains { $0.contains("for it to end") } }
      }
      await #expect(throws: StorageSeal.Unfinished.self) {
        try await Nodes(database: stage.database).join(key)
      }
      try await other.leave()
      #expect(try await task.value.resealed >= 5)
      try await stage.expectChanged(from: old, 0..<5)
    }
  }

  @Test(arguments: DatabaseEngine.available)
  func `ends a process that was silent while it came`(_ engine: DatabaseEngine) async throws {
    try await Stage.run(engine) { stage in
      let key = try await stage.key()
      let silent = Nodes(database: stage.database)
      try await silent.join(key, isServing: true)
      _ = try await stage.rotate()
      await #expect(throws: StorageSeal.WrongKey.self) { try await silent.stay(key, isServing: true) }
    }
  }

  @Test
  func `is not made anew where it is lost, nor for another database`() async throws {
    try await Stage.run(.sqlite) { stage in
      let old = try stage.text()
      try await stage.register(0..<5, try await stage.key())
      // The mark is set, and nothing is sealed yet.
      await #expect(throws: MortalDatabase.Killed.self) {
        try await stage.rotate(on: MortalDatabase(stage.database, operations: 3))
      }
      let path = KeyFolder.nextStorageKeyPath(in: stage.folder.path)
      let new = try Array(Data(contentsOf: URL(fileURLWithPath: path)))
      #expect(PrivateFile.isExposed(path) == false)
      for other in [nil, StorageKeyFile.generate().utf8] {
        try FileManager.default.removeItem(atPath: path)
        if let other { try PrivateFile.write(other, to: path, replacing: true) }
        let fault = await #expect(throws: Fault.self) { try await stage.rotate() }
        #expect("\(try #require(fault))".contains("storage.key.new is missing or is another key"))
        try PrivateFile.write(new, to: path, replacing: true)
      }
      let foreign = stage.folder.appending(path: "storage.key").path
      try PrivateFile.write(StorageKeyFile.generate().utf8, to: foreign, replacing: true)
      await #expect(throws: StorageSeal.WrongKey.self) { try await stage.rotate() }
      try PrivateFile.write(Array(old.utf8), to: foreign, replacing: true)
      #expect(try await stage.rotate().resealed >= 5)
      try await stage.expectChanged(from: old, 0..<5)
    }
  }
}

/// A database that throws from an operation on, as if the process had been killed before it.
private final class MortalDatabase: Database {
  struct Killed: Error {}

  private let own: any Database
  private let left: Mutex<Int>

  init(_ own: any Database, operations: Int) {
    self.own = own
    left = Mutex(operations)
  }

  var engine: DatabaseEngine { own.engine }

  private func live() throws {
    try left.withLock { left in
      guard left > 0 else { throw Killed() }
      left -= 1
    }
  }

  func query(_ statement: Statement) async throws -> [Row] {
    try live()
    return try await own.query(statement)
  }

  func transaction(
    _ kind: TransactionKind, _ work: @escaping @Sendable (any Connection) throws -> Void
  ) async throws {
    try live()
    try await own.transaction(kind, work)
  }

  func execute(_ statement: Statement) async throws -> [Row] {
    try live()
    return try await own.execute(statement)
  }

  func close() async {}
}
