import Foundation

@testable import ZulipImport

/// CSV files as PostgreSQL writes them: the same in small parts, and when written again.
enum CSVTarget: FuzzTarget {
  static let name = "csv"

  private struct Records {
    var fields: [[String?]] = []
    var failure: CSVReader.Failure?
  }

  static func run(_ bytes: [UInt8]) throws {
    let whole = try read(bytes, at: .max)
    if let count = partLength(of: bytes, among: 3, 7, 64) {
      let parts = try read(bytes, at: count)
      try check(
        parts.failure == whole.failure && (whole.failure != nil || parts.fields == whole.fields),
        "\(count) records at a time are read as the whole is")
    }
    guard whole.failure == nil else { return }
    try check(
      try read(Array(written(whole.fields).utf8), at: .max).fields == whole.fields,
      "what is written reads the same")
    for case let field? in whole.fields.prefix(100).joined() {
      if let date = Date(postgreSQL: field) {
        try check(date.timeIntervalSince1970.isFinite, "a date is one")
      }
    }
  }

  private static func read(_ bytes: [UInt8], at count: Int) throws -> Records {
    var records = Records()
    do {
      var reader = CSVReader(Data(bytes))
      while case let found = try reader.next(count), !found.isEmpty { records.fields += found.map(\.fields) }
    } catch let failure as CSVReader.Failure {
      records.failure = failure
    }
    return records
  }

  private static func written(_ records: [[String?]]) -> String {
    records.map { fields in
      // An empty line would be skipped.
      if fields == [nil] { return "\"\"" }
      return fields.map { field in
        guard let field else { return "" }
        return "\"" + field.replacing("\"", with: "\"\"") + "\""
      }.joined(separator: ",") + "\n"
    }.joined()
  }
}
