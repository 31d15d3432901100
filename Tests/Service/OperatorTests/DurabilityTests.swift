import Foundation
import Migrations
import Registrations
import SQL
import Sealing
import TestDatabase
import TestSupport
import Testing

@testable import Operator
@testable import Platform

/// `Documentation/Operating.md`, a power loss: what `doctor` says of a database that may lose what was promised.
@Suite struct DurabilityTests {
  private static let mounts = """
    22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
    25 22 0:23 / /dev/shm rw,nosuid - tmpfs tmpfs rw,size=24684092k
    26 22 0:24 / /srv/a\\040b rw - ext4 /dev/vdb rw,nobarrier
    27 22 0:25 / /layers rw - overlay overlay rw,lowerdir=/l,upperdir=/u,volatile
    28 22 0:26 / /over rw - tmpfs tmpfs rw
    29 28 0:27 / /over rw - xfs /dev/vdc rw
    """

  private func doctor(_ url: String, mounts: String, in folder: URL) throws -> Doctor {
    let overrides = ["keys.directory": folder.path, "database.url": url]
    let (configuration, _) = try Configuration.load(
      file: nil, environment: [:], overrides: overrides, workingDirectory: folder.path)
    return Doctor(configuration, providerTime: { nil }, mounts: mounts)
  }

  @Test(arguments: [
    ("/var/lib/push-bouncer/push-bouncer.sqlite", nil), ("/dev/shm/push-bouncer.sqlite", "tmpfs at /dev/shm"),
    ("/dev/shmall/push-bouncer.sqlite", nil), ("/srv/a b/push-bouncer.sqlite", "nobarrier"),
    ("/layers/push-bouncer.sqlite", "volatile"), ("/over/push-bouncer.sqlite", nil),
  ])
  func `A file on a file system that does not sync is a fault`(_ path: String, _ fault: String?) async throws
  {
    try await withTemporaryFolder { folder in
      let findings = try await doctor("sqlite:\(path)", mounts: Self.mounts, in: folder).durabilityFindings()
      let finding = try #require(findings.first)
      #expect(findings.count == 1 && finding.standing == (fault == nil ? .good : .fault), "\(findings)")
      if let fault { #expect(finding.detail.contains(fault), "\(finding)") }
    }
  }

  @Test(arguments: [
    ("fsync", "off", "off", Finding.Standing.fault), ("synchronous_commit", "off", "off", .fault),
    ("synchronous_commit", "on", "off", .warning), ("full_page_writes", "off", "off", .warning),
  ])
  func `A setting of PostgreSQL that may lose something is named`(
    _ name: String, _ value: String, _ usual: String, _ standing: Finding.Standing
  ) {
    let findings = Doctor.findings([name: .init(value: value, usual: usual)])
    #expect(findings.map(\.standing) == [standing])
    #expect(findings.allSatisfy { $0.detail.contains("\(name) = off") && $0.advice?.contains(name) == true })
    for value in ["on", "local", "remote_write", "remote_apply"] {
      #expect(Doctor.findings([name: .init(value: value, usual: value)]).isEmpty)
    }
  }

  @Test(.needsPostgreSQL) func `A server is asked for its settings`() async throws {
    try await PostgreSQLServer.test("full_page_writes=off", "synchronous_commit=off") { server in
      try await withTemporaryFolder { folder in
        let doctor = try doctor(server.url, mounts: "", in: folder)
        let findings = await doctor.durabilityFindings()
        await doctor.visit.close()
        // The servers of tests run with fsync = off.
        #expect(findings.map(\.standing) == [.fault, .warning, .warning, .good], "\(findings)")
      }
    }
    try await PostgreSQLServer.test("fsync=on") { server in
      try await withTemporaryFolder { folder in
        let doctor = try doctor(server.url, mounts: "", in: folder)
        let findings = await doctor.durabilityFindings()
        await doctor.visit.close()
        #expect(findings.map(\.standing) == [.good, .good], "\(findings)")
        #expect(findings.last?.detail == "there is no replica that could take over")
      }
    }
  }

  @Test(
    .needsPostgreSQL,
    arguments: [
      (false, "on", Finding.Standing.warning, "1 replica and none synchronous"),
      (true, "on", .good, "a synchronous replica has"),
      (true, "remote_write", .warning, "synchronous_commit = remote_write"),
      (true, "local", .warning, "synchronous_commit = local"),
    ])
  func `A failover that may lose what was answered is told before it comes`(
    isSynchronous: Bool, commit: String, standing: Finding.Standing, detail: String
  ) async throws {
    try await PostgreSQLServer.testWithStandby(isSynchronous: isSynchronous) { primary, _ in
      try await primary.set("synchronous_commit", to: commit)
      try await withTemporaryFolder { folder in
        let doctor = try doctor(primary.url, mounts: "", in: folder)
        let finding = await doctor.durabilityFindings().first { $0.check == "failover" }
        await doctor.visit.close()
        #expect(finding?.standing == standing)
        #expect(finding?.detail.contains(detail) == true, "\(String(describing: finding))")
      }
    }
  }

  @Test func `A start that was cut off before it made the storage key is no fault`() async throws {
    try await withTemporaryFolder { folder in
      let path = folder.appending(path: "test.sqlite").path
      let doctor = try doctor("sqlite:\(path)", mounts: "", in: folder)
      func finding() async throws -> Finding {
        try #require(await doctor.examine().first { $0.check == "database" })
      }
      let database = try await openDatabase(url: DatabaseURL("sqlite:\(path)"))
      try await Schema.migrate(database)
      #expect(try await finding().isGood)
      // Once something is sealed, the key must be there.
      try await StorageSeal.verify(StorageKey(StorageKeyFile.generate()), of: database)
      let fault = try await finding()
      #expect(!fault.isGood && fault.detail.contains("storage.key is missing"), "\(fault)")
      await database.close()
    }
  }
}
