import Foundation
import TestSupport
import Testing

@testable import ZulipImport

@Suite struct CSVReaderTests {
  /// The records of a file, or the error of reading it.
  private func records(_ bytes: some Sequence<UInt8>) throws -> [[String?]] {
    let file = Data(bytes)
    var reader = CSVReader(file)
    let records = try reader.next(.max).map(\.fields)
    #expect(reader.offset == file.count)
    return records
  }

  private func records(_ text: String) throws -> [[String?]] { try records(text.utf8) }

  @Test func `Fields are read as COPY writes them`() throws {
    #expect(try records("") == [])
    #expect(try records("a") == [["a"]])
    #expect(try records("a,b\n1,2\n") == [["a", "b"], ["1", "2"]])
    #expect(try records("a,\"\",,\" \"\n") == [["a", "", nil, " "]])
    #expect(try records(",\n,") == [[nil, nil], [nil, nil]])
    #expect(try records("\"a,\"\"b\"\"\",\"\"\"\"\n") == [["a,\"b\"", "\""]])
    #expect(try records("\"one\ntwo\r\n\",x\ny,z") == [["one\ntwo\r\n", "x"], ["y", "z"]])
    #expect(try records("Köln,\"日本\"\n") == [["Köln", "日本"]])
    #expect(try records("\\xC0FFEE,\\N\n") == [["\\xC0FFEE", "\\N"]])
  }

  @Test func `Files that went through other systems are read too`() throws {
    #expect(try records([0xef, 0xbb, 0xbf] + Array("a,b\r\n\"1\",\r\n".utf8)) == [["a", "b"], ["1", nil]])
    #expect(try records("a,b\r\n1,\"2\"\r\n\r\n\n") == [["a", "b"], ["1", "2"]])
    #expect(try records("a\rb,c\r") == [["a\rb", "c"]])
    #expect(try records("\"\"\n\n\"\"\r") == [[""], [""]])
  }

  @Test(arguments: [
    ("a,b\n1,\"2", 2, "not closed"), ("a\n\"x\"y\n", 2, "closing quote of field 1"),
    ("a\n1,\"x\"\ry\n", 2, "closing quote of field 2"), ("a,b\n\"\n\n\",c\nx,y\"z\n", 5, "inside field 2"),
    ("a\n\u{0}", 2, "U+0000"), ("a\n\"x\"\r\"y\"\n", 2, "closing quote"),
  ]) func `A malformed file is an error with its line`(text: String, line: Int, problem: String) throws {
    let failure = #expect(throws: CSVReader.Failure.self) { try records(text) }
    #expect(failure?.line == line)
    #expect(failure?.problem.contains(problem) == true)
  }

  @Test func `Bytes that are no UTF-8 are an error`() throws {
    #expect(throws: CSVReader.Failure(line: 1, problem: "is not UTF-8")) { try records([0x61, 0xff]) }
  }

  @Test func `Records are read some at a time, each with its line`() throws {
    let lines = (0..<1000).map { "\($0),\"a\n\"\"\(String(repeating: "b", count: $0 % 40))\"" }
    var reader = CSVReader(Data(lines.joined(separator: "\n").utf8))
    for batch in 0..<10 {
      for (index, record) in try reader.next(100).enumerated() {
        #expect(record.line == 2 * (100 * batch + index) + 1)
        #expect(record.fields.first == "\(100 * batch + index)")
      }
    }
    #expect(try reader.next(100).isEmpty)
  }

  @Test func `What is written is what is read, whatever it is`() throws {
    var random = SystemRandomNumberGenerator()
    let characters: [Character] = ["a", "\"", ",", "\n", "\r", "é", " ", "\\"]
    for _ in 0..<2000 {
      let width = Int.random(in: 1...4, using: &random)
      let records = (0..<Int.random(in: 1...4, using: &random)).map { _ in
        (0..<width).map { _ -> String? in
          guard Int.random(in: 0...4, using: &random) > 0 else { return nil }
          return String(
            (0..<Int.random(in: 0...5, using: &random)).map { _ in
              characters.randomElement(using: &random) ?? "a"
            })
        }
      }.filter { $0 != [nil] }
      let end = Bool.random(using: &random) ? "\n" : "\r\n"
      let text = records.map { record in
        record.map { field in
          guard let field else { return "" }
          let isPlain =
            !field.isEmpty && !field.unicodeScalars.contains { "\",\n\r".unicodeScalars.contains($0) }
          return isPlain && Bool.random(using: &random) ? field : "\"\(field.replacing("\"", with: "\"\""))\""
        }.joined(separator: ",") + end
      }.joined()
      #expect(try self.records(text) == records, "\(text.debugDescription)")
    }
  }

  @Test func `Any bytes are read or refused`() throws {
    var random = SystemRandomNumberGenerator()
    let bytes: [UInt8] = Array("a\",\n\r".utf8) + [0x00, 0xc3, 0xa9, 0xff]
    for _ in 0..<3000 {
      let text = (0..<Int.random(in: 0...30, using: &random)).map { _ in
        bytes.randomElement(using: &random) ?? 0
      }
      do {
        for record in try records(text) { #expect(!record.isEmpty) }
      } catch is CSVReader.Failure {}
    }
  }
}

@Suite struct ZulipFolderTests {
  private static let header = [
    ZulipTable.servers: "id,uuid,api_key,hostname", .tokens: "id,server_id,kind,token,last_updated",
  ]

  /// Runs the import over files of these tables.
  private func run(_ files: [ZulipTable: String]) async throws -> ImportReport {
    let target = try await ImportTarget()
    return try await withTemporaryFolder { folder in
      for (table, text) in Self.header.merging(files, uniquingKeysWith: { $1 }) {
        try Data("\(text)\n".utf8).write(to: folder.appending(path: "\(table.rawValue).csv"))
      }
      return try await target.importing().run(from: ZulipSource(folder.path))
    }
  }

  private static let server = "1,a1000000-0000-4000-8000-000000000001,key,chat.example.org"

  @Test func `Columns may be in any order, and be more or fewer`() async throws {
    let report = try await run([
      .servers: "new,hostname,uuid,id,api_key\nx,\(Self.server.split(separator: ",").reversed().first ?? ""),"
        + "a1000000-0000-4000-8000-000000000001,1,key",
      .tokens: "token,kind,user_id,server_id,id\n\"fcm\nwith, everything\"\"\",2,5,1,7",
    ])
    #expect(report[.servers][.imported] == 1 && report[.tokens][.imported] == 1)
    #expect(report.missing == [.realms, .devices])
  }

  @Test func `A folder without a file that all versions have is refused`() async throws {
    for missing in Self.header.keys {
      try withTemporaryFolder { folder in
        for (table, text) in Self.header where table != missing {
          try Data("\(text)\n".utf8).write(to: folder.appending(path: "\(table.rawValue).csv"))
        }
        #expect(throws: ZulipSourceError.self) { _ = try ZulipSource(folder.path) }
      }
    }
  }

  @Test(
    arguments: [
      ([.servers: "id,uuid,api_key"], "zilencer_remotezulipserver.csv, line 1: there is no column hostname"),
      ([.servers: "id,id,uuid,api_key,hostname"], "line 1: column id is there 2 times"),
      ([.servers: ""], "line 1: has no header"),
      (
        [.servers: "id,uuid,api_key,hostname\n\(server)\n2,x,key,other"],
        "zilencer_remotezulipserver.csv, line 3: column uuid: expected a UUID"
      ),
      (
        [.servers: "id,uuid,api_key,hostname\n1,2"], "line 2: there are 2 fields, and 4 columns in the header"
      ),
      (
        [.tokens: "id,server_id,kind,token\n\"\n\",1,1,x"],
        "line 2: column id: expected an integer of 64 bits"
      ),
      (
        [.tokens: "id,server_id,kind,token\n9223372036854775808,1,1,x"],
        "column id: expected an integer of 64 bits"
      ),
      (
        [.tokens: "id,server_id,kind,token,last_updated\n1,1,1,x,yesterday"],
        "line 2: column last_updated: expected a time with its zone"
      ),
      ([.devices: "device_id"], "has zilencer_remotepushdevice.csv, but not zilencer_remoterealm.csv"),
    ] as [([ZulipTable: String], String)])
  func `What is wrong with a file is told with its place`(files: [ZulipTable: String], message: String)
    async throws
  {
    let error = await #expect(throws: ZulipSourceError.self) { _ = try await run(files) }
    #expect(error?.description.contains(message) == true, "\(error?.description ?? "")")
  }

  @Test(arguments: ["/nowhere/at/all", "sqlite:x.sqlite", "mysql://host/name", "postgres://user:secret@/"])
  func `What is no source is refused without showing its password`(text: String) {
    let error = #expect(throws: ZulipSourceError.self) { try ZulipSource(text) }
    #expect(error?.description.contains("secret") == false)
  }

  @Test func `A source is a URL or a folder`() throws {
    guard case .database = try ZulipSource("postgres://zulip@localhost/zulip") else {
      Issue.record("no database")
      return
    }
  }

  @Test(arguments: [
    ("1970-01-01 00:00:00+00", 0), ("2024-05-06 07:08:09.123456+00", 1_714_979_289.123456),
    ("2024-02-29T23:59:59.5Z", 1_709_251_199.5), ("2024-05-06 07:08:09+05:30", 1_714_959_489),
    ("2024-05-06 07:08:09-03", 1_714_990_089), ("1969-12-31 23:59:59+00", -1),
    ("2100-03-01 00:00:00+00", 4_107_542_400), ("10000-01-01 00:00:00+00", 253_402_300_800),
  ]) func `Times are PostgreSQL's`(text: String, seconds: Double) throws {
    let date = try #require(Date(postgreSQL: text))
    #expect(abs(date.timeIntervalSince1970 - seconds) < 0.000_002)
  }

  @Test(arguments: [
    "", "infinity", "2024-05-06", "2024-05-06 07:08:09", "2024-13-06 07:08:09+00", "2024-05-06 24:08:09+00",
    "2024-05-06 07:08:09+00x", "2024-05-06 07:08:09.+00", "2024-05-06 07:08:09.1234567890+00",
    "24-05-06 07:08:09+00",
  ]) func `Anything else is no time`(text: String) {
    #expect(Date(postgreSQL: text) == nil)
  }
}
