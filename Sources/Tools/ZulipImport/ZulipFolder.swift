import Foundation

/// A folder of CSV files named after the tables; all files are opened at the beginning.
package struct ZulipFolder: ZulipOrigin {
  private let files: [ZulipTable: Data]

  /// - Throws: ``ZulipSourceError`` if a file is missing that all versions have.
  package init(path: String) throws(ZulipSourceError) {
    var files: [ZulipTable: Data] = [:]
    for table in ZulipTable.allCases {
      let file = URL(fileURLWithPath: path).appending(path: "\(table.rawValue).csv")
      let target = file.resolvingSymlinksInPath()
      guard
        (try? FileManager.default.attributesOfItem(atPath: target.path))?[.type] as? FileAttributeType
          == .typeRegular
      else {
        if !table.isRequired { continue }
        throw ZulipSourceError("\(path) has no file \(table.rawValue).csv")
      }
      do {
        files[table] = try Data(contentsOf: target, options: .alwaysMapped)
      } catch {
        throw ZulipSourceError("\(file.path) cannot be read")
      }
    }
    if files[.devices] != nil, files[.realms] == nil {
      throw ZulipSourceError(
        "\(path) has \(ZulipTable.devices.rawValue).csv, but not \(ZulipTable.realms.rawValue).csv")
    }
    self.files = files
  }

  func has(_ table: ZulipTable) -> Bool { files[table] != nil }

  /// Number of bytes.
  func size(of table: ZulipTable) -> Int64 { Int64(files[table]?.count ?? 0) }

  func rows(of table: ZulipTable, batch: Int) throws -> any ZulipRows {
    try ZulipFileRows(files[table] ?? Data(), table, batch: batch)
  }
}

/// Reads a CSV file in its own order.
private actor ZulipFileRows: ZulipRows {
  private let table: ZulipTable
  private let columns: ZulipTable.Columns
  private let batch: Int
  private var reader: CSVReader
  private let header: [String?]
  /// Position of each of the table's columns in a record.
  private let places: [Int?]

  init(_ file: Data, _ table: ZulipTable, batch: Int) throws {
    self.table = table
    self.batch = batch
    let columns = table.columns
    self.columns = columns
    var reader = CSVReader(file)
    let header = try Self.telling(table) {
      guard let header = try reader.next(1).first else {
        throw CSVReader.Failure(line: 1, problem: "has no header")
      }
      return header.fields
    }
    places = try Self.telling(table) {
      try columns.names.enumerated().map { index, name in
        let found = header.indices.filter { header[$0] == name }
        guard found.count <= 1 else {
          throw CSVReader.Failure(line: 1, problem: "column \(name) is there \(found.count) times")
        }
        guard !found.isEmpty || index >= columns.required else {
          throw CSVReader.Failure(line: 1, problem: "there is no column \(name) in the header")
        }
        return found.first
      }
    }
    self.reader = reader
    self.header = header
  }

  func next() throws -> (rows: [SourceRow], size: Int64) {
    let start = reader.offset
    let rows = try Self.telling(table) {
      try reader.next(batch).map { record in
        guard record.fields.count == header.count else {
          throw CSVReader.Failure(
            line: record.line,
            problem: "there are \(record.fields.count) fields, and \(header.count) columns in the header")
        }
        return SourceRow(
          table: table, columns: columns, line: record.line,
          values: places.map { $0.flatMap { record.fields[$0] } })
      }
    }
    return (rows, Int64(reader.offset - start))
  }

  private static func telling<Result>(_ table: ZulipTable, _ body: () throws -> Result) throws -> Result {
    do {
      return try body()
    } catch let failure as CSVReader.Failure {
      throw ZulipSourceError("\(table.rawValue).csv, line \(failure.line): \(failure.problem)")
    }
  }
}
