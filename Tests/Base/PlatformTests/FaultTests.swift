import Basics
import Platform
import SQL
import Testing

@Suite struct FaultTests {
  @Test(
    arguments: [
      (.connectionLost, "the connection was lost; see whether the server runs"),
      (.busy, "another process keeps it locked; end that process or wait for it"),
      (.full, "there is no room left on the disk; free some space"),
      (.readOnly, "nothing can be written; let "),
      (.io, "the disk or the file system fails; look at the system's log and at the file's owner"),
      (.corrupt, "it is not a database, or it is damaged; name another file, or restore a backup"),
      (
        .newerSchema,
        "it belongs to a newer push-bouncer; run that version, or restore a backup made before it"
      ),
      (.changedMigration, "it was made by another build of push-bouncer; run that build, or "),
      (.closed, "it was closed; try again"),
      (.serializationFailure, "another process got in the way; try again"),
    ] as [(DatabaseError.Code, String)])
  func `An error of the database is told with what to do`(code: DatabaseError.Code, text: String) {
    let fault = Fault(DatabaseError(code, "SECRET") as any Error)
    #expect(fault.description.hasPrefix("the database: \(text)"), "\(fault)")
    #expect(!fault.description.contains("SECRET"))
  }

  @Test func `A standby is told apart from a file that cannot be written`() throws {
    let fault = Fault(
      DatabaseError(.readOnly, "the server is a standby"),
      of: try DatabaseURL("postgres://u@db.example.org/n"))
    #expect(
      fault.description.hasSuffix(
        "nothing can be written: the server is a standby; name the primary server, or all servers, with commas between"
      ))
  }
}
