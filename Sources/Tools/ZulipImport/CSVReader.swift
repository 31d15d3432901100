import Foundation

/// Reads CSV files as PostgreSQL's `COPY ... TO ... CSV` writes them (RFC 4180); an empty field without
/// quotes is NULL.
///
/// None of our dependencies has a CSV parser. The file is memory-mapped, so that memory use does not grow
/// with it.
struct CSVReader {
  /// An error in a file.
  struct Failure: Error, Hashable {
    /// First line of the record, counted from 1.
    let line: Int
    let problem: String
  }

  struct Record {
    /// First line of the record, counted from 1.
    let line: Int
    let fields: [String?]
  }

  private let file: Data
  /// Number of bytes before the next record.
  private(set) var offset = 0
  private var line = 1

  init(_ file: Data) {
    self.file = file
    // Skips a byte order mark.
    if file.starts(with: [0xef, 0xbb, 0xbf]) { offset = 3 }
  }

  /// Returns the next records, at most `count`; none at the end. Empty lines are skipped.
  mutating func next(_ count: Int) throws -> [Record] {
    let file = file
    return try file.withUnsafeBytes { bytes in
      var records: [Record] = []
      while records.count < count, let record = try record(in: bytes) { records.append(record) }
      return records
    }
  }

  private mutating func record(in bytes: UnsafeRawBufferPointer) throws(Failure) -> Record? {
    while offset < bytes.count {
      let begin = line
      var fields: [String?] = []
      repeat {
        fields.append(try field(fields.count + 1, from: begin, in: bytes))
      } while skip(",", in: bytes)
      let isReturn = skip("\r", in: bytes)
      guard skip("\n", in: bytes) || offset == bytes.count else {
        offset -= isReturn ? 1 : 0
        throw Failure(
          line: begin, problem: "unexpected text after the closing quote of field \(fields.count)")
      }
      line += 1
      if fields != [nil] { return Record(line: begin, fields: fields) }
    }
    return nil
  }

  private mutating func field(
    _ number: Int, from line: Int, in bytes: UnsafeRawBufferPointer
  ) throws(Failure) -> String? {
    guard skip("\"", in: bytes) else {
      let start = offset
      while offset < bytes.count, case let byte = bytes[offset], byte != UInt8(ascii: ","),
        byte != UInt8(ascii: "\n")
      {
        guard byte != UInt8(ascii: "\"") else {
          throw Failure(
            line: line, problem: "unexpected quote inside field \(number), which does not begin with one")
        }
        offset += 1
      }
      var end = offset
      let isLast = end == bytes.count || bytes[end] == UInt8(ascii: "\n")
      if isLast, end > start, bytes[end - 1] == UInt8(ascii: "\r") { end -= 1 }
      return start == end ? nil : try text(bytes[start..<end], line)
    }
    let start = offset
    var hasQuotes = false
    while offset < bytes.count {
      if skip("\"", in: bytes) {
        guard skip("\"", in: bytes) else {
          let text = try text(bytes[start..<offset - 1], line)
          return hasQuotes ? text.replacing("\"\"", with: "\"") : text
        }
        hasQuotes = true
      } else {
        if bytes[offset] == UInt8(ascii: "\n") { self.line += 1 }
        offset += 1
      }
    }
    throw Failure(line: line, problem: "a quote is not closed")
  }

  private mutating func skip(_ character: Unicode.Scalar, in bytes: UnsafeRawBufferPointer) -> Bool {
    guard offset < bytes.count, bytes[offset] == UInt8(ascii: character) else { return false }
    offset += 1
    return true
  }

  private func text(_ bytes: Slice<UnsafeRawBufferPointer>, _ line: Int) throws(Failure) -> String {
    guard let text = String(validating: bytes, as: UTF8.self) else {
      throw Failure(line: line, problem: "is not UTF-8")
    }
    guard !bytes.contains(0) else { throw Failure(line: line, problem: "holds U+0000") }
    return text
  }
}
