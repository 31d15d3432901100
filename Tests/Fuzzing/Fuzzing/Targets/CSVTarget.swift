import Foundation

@testable import ZulipImport

/// CSV files as PostgreSQL writes them: the same in small parts, and when written again.
enum CSVTarget: FuzzTarget {
  static let name = "csv"

  private static let file = InputFile("records.csv")
  private static let copy = InputFile("copy.csv")

  private struct Records: Equatable {
    var fields: [[String?]] = []
    var failure: CSVReader.Failure?
  }

  static func run(_ bytes: [UInt8]) throws {
    file.write(bytes)
    let whole = try read(file, chunk: 1 << 18)
    if let chunk = partLength(of: bytes, among: 3, 7, 64) {
      try check(try read(file, chunk: chunk) == whole, "parts of \(chunk) bytes are read as the whole is")
    }
    guard whole.failure == nil else { return }
    copy.write(Array(written(whole.fields).utf8))
    try check(try read(copy, chunk: 1 << 18).fields == whole.fields, "what is written reads the same")
    for case let field? in whole.fields.prefix(100).joined() {
      if let date = Date(postgreSQL: field) {
        try check(date.timeIntervalSince1970.isFinite, "a date is one")
      }
    }
  }

  private static func read(_ file: InputFile, chunk: Int) throws -> Records {
    var records = Records()
    do {
      var reader = try CSVReader(path: file.path, chunk: chunk)
      while try reader.advance() {
        records.fields.append(try (0..<reader.fieldCount).map { try reader.text($0) })
      }
    } catch let failure as CSVReader.Failure {
      records.failure = failure
    }
    return records
  }

  private static func written(_ records: [[String?]]) -> String {
    records.map { fields in
      // A line without anything would be passed over.
      if fields == [nil] { return "\"\"" }
      return fields.map { field in
        guard let field else { return "" }
        return "\"" + field.replacing("\"", with: "\"\"") + "\""
      }.joined(separator: ",") + "\n"
    }.joined()
  }
}
