import Foundation

/// A folder of CSV files named after the tables, which are open from the beginning.
package struct ZulipFolder: ZulipOrigin {
  private let files: [ZulipTable: CSVFile]

  /// - Throws: ``ZulipSourceError`` if a file is missing that every version has.
  init(path: String) throws(ZulipSourceError) {
    var files: [ZulipTable: CSVFile] = [:]
    for table in ZulipTable.allCases {
      let file = try CSVFile(Self.file(of: table, in: path))
      if file == nil, table.isRequired {
        throw ZulipSourceError("\(path) has no file \(table.rawValue).csv")
      }
      files[table] = file
    }
    if files[.devices] != nil, files[.realms] == nil {
      throw ZulipSourceError(
        "\(path) has \(ZulipTable.devices.rawValue).csv, but not \(ZulipTable.realms.rawValue).csv")
    }
    self.files = files
  }

  func has(_ table: ZulipTable) -> Bool { files[table] != nil }

  /// In bytes.
  func size(of table: ZulipTable) -> Int64 { Int64(files[table]?.size ?? 0) }

  func rows(of table: ZulipTable, batch: Int) throws -> any ZulipRows {
    guard let file = files[table]?.handle else {
      throw ZulipSourceError("there is no file \(table.rawValue).csv")
    }
    return try ZulipFileRows(file, table, batch: batch)
  }

  private static func file(of table: ZulipTable, in path: String) -> URL {
    URL(fileURLWithPath: path).appending(path: "\(table.rawValue).csv")
  }
}

/// A file that is open, with its size in bytes.
private struct CSVFile {
  let handle: FileHandle
  let size: Int

  /// nil if there is no regular file.
  ///
  /// - Throws: ``ZulipSourceError`` if there is one that cannot be opened.
  init?(_ url: URL) throws(ZulipSourceError) {
    let path = url.resolvingSymlinksInPath().path
    guard let attributes = try? FileManager.default.attributesOfItem(atPath: path),
      attributes[.type] as? FileAttributeType == .typeRegular, let size = attributes[.size] as? Int
    else { return nil }
    guard let handle = FileHandle(forReadingAtPath: path) else {
      throw ZulipSourceError("\(url.path) cannot be read")
    }
    (self.handle, self.size) = (handle, size)
  }
}

/// The rows of a CSV file, in the order of the file.
private actor ZulipFileRows: ZulipRows {
  private let table: ZulipTable
  private let batch: Int
  private var reader: CSVReader
  private let fieldCount: Int
  /// Where each of the table's columns is in a record.
  private let places: [Int?]

  init(_ file: FileHandle, _ table: ZulipTable, batch: Int) throws {
    self.table = table
    self.batch = batch
    do {
      var reader = try CSVReader(file: file)
      guard try reader.advance() else { throw CSVReader.Failure(line: 1, problem: "has no header") }
      fieldCount = reader.fieldCount
      places = try Self.places(of: table, in: reader)
      self.reader = reader
    } catch let failure as CSVReader.Failure {
      throw ZulipSourceError(failure, in: table)
    }
  }

  func next() throws -> SourceBatch? {
    do {
      let start = reader.offset
      var rows: [SourceRow] = []
      var lines: [Int] = []
      rows.reserveCapacity(batch)
      lines.reserveCapacity(batch)
      while rows.count < batch, try reader.advance() {
        guard reader.fieldCount == fieldCount else {
          throw CSVReader.Failure(
            line: reader.line,
            problem: "there are \(reader.fieldCount) fields, and \(fieldCount) columns in the header")
        }
        rows.append(SourceRow(values: try places.map { try $0.flatMap { try reader.text($0) } }))
        lines.append(reader.line)
      }
      guard !rows.isEmpty else { return nil }
      return SourceBatch(
        rows: rows, place: .file(lines: lines), size: reader.offset - start)
    } catch let failure as CSVReader.Failure {
      throw ZulipSourceError(failure, in: table)
    }
  }

  private static func places(of table: ZulipTable, in header: CSVReader) throws -> [Int?] {
    let names = try (0..<header.fieldCount).map { try header.text($0) ?? "" }
    return try table.columns.map { column in
      let found = names.indices.filter { names[$0] == column.name }
      guard found.count <= 1 else {
        throw CSVReader.Failure(line: 1, problem: "column \(column.name) is there \(found.count) times")
      }
      guard !found.isEmpty || !column.isRequired else {
        throw CSVReader.Failure(line: 1, problem: "there is no column \(column.name) in the header")
      }
      return found.first
    }
  }
}

extension ZulipSourceError {
  fileprivate init(_ failure: CSVReader.Failure, in table: ZulipTable) {
    self.init("\(table.rawValue).csv, line \(failure.line): \(failure.problem)")
  }
}
