import Foundation

/// Reads the records of a CSV file one after the other, as PostgreSQL's `COPY ... TO ... CSV` writes them:
/// fields separated by commas, in quotes where they have to be, quotes inside doubled, any line breaks
/// inside; nothing without quotes is NULL (RFC 4180, and the manual of COPY). Memory does not grow with
/// the file.
///
/// No CSV parser is among our dependencies, and those for Swift read whole files.
struct CSVReader {
  /// What is wrong with a file, and where.
  struct Failure: Error, Hashable {
    /// The line that the record begins with, from 1.
    let line: Int
    let problem: String
  }

  /// A field: where it is in the buffer, counted from the record's begin, without its quotes.
  private struct Field {
    var range: Range<Int>
    var isQuoted: Bool
    var hasQuotesInside: Bool
  }

  private enum State {
    case begin, plain, quoted
    /// After a quote inside quotes: the end, or the first half of a quote that is meant.
    case quote
    /// After the first half of a line's end that follows a quote.
    case carriageReturn
  }

  /// A token has 4096 characters at most: a record beyond this has lost a quote.
  private static let maximumRecord = 1 << 20

  private let file: FileHandle
  private let chunk: Int
  private var buffer: [UInt8] = []
  /// Where the present record begins in the buffer.
  private var begin = 0
  /// Where the next one does.
  private var next = 0
  private var fields: [Field] = []

  /// How many bytes of the file are before the next record.
  private(set) var offset: Int64 = 0
  /// The line that the present record begins with.
  private(set) var line = 0
  private var nextLine = 1

  /// Begins to read the file at `path`, whose errors are Foundation's, so many bytes at a time.
  init(path: String, chunk: Int = 1 << 18) throws {
    try self.init(file: FileHandle(forReadingFrom: URL(fileURLWithPath: path)), chunk: chunk)
  }

  /// Begins to read a file that is open, from its beginning. Only one reads it at a time.
  init(file: FileHandle, chunk: Int = 1 << 18) throws {
    self.chunk = chunk
    self.file = file
    try file.seek(toOffset: 0)
    try fill()
    if buffer.starts(with: [0xef, 0xbb, 0xbf]) { (next, offset) = (3, 3) }
  }

  /// How many fields the present record has.
  var fieldCount: Int { fields.count }

  /// Goes on to the next record; false at the end. Lines without anything are passed over.
  mutating func advance() throws -> Bool {
    repeat {
      guard try readRecord() else { return false }
    } while fields.count == 1 && fields[0].range.isEmpty && !fields[0].isQuoted
    return true
  }

  /// The text of a field of the present record; nil for NULL.
  func text(_ index: Int) throws(Failure) -> String? {
    let field = fields[index]
    guard field.isQuoted || !field.range.isEmpty else { return nil }
    let bytes = buffer[begin + field.range.lowerBound..<begin + field.range.upperBound]
    let text =
      field.hasQuotesInside
      ? String(validating: Self.halvingQuotes(bytes), as: UTF8.self)
      : String(validating: bytes, as: UTF8.self)
    guard let text else { throw Failure(line: line, problem: "is not UTF-8") }
    guard !text.utf8.contains(0) else { throw Failure(line: line, problem: "holds U+0000") }
    return text
  }

  // MARK: - Records

  private mutating func readRecord() throws -> Bool {
    (begin, line) = (next, nextLine)
    fields.removeAll(keepingCapacity: true)
    var state = State.begin
    var field = Field(range: 0..<0, isQuoted: false, hasQuotesInside: false)
    var start = 0
    var index = begin
    while true {
      if index == buffer.count {
        guard index - begin <= Self.maximumRecord else {
          throw Failure(
            line: line, problem: "the record is longer than \(Self.maximumRecord) bytes: is a quote missing?")
        }
        index -= begin
        buffer.removeSubrange(..<begin)
        (begin, next) = (0, 0)
        guard try fill() else {
          guard state != .quoted else { throw Failure(line: line, problem: "a quote is not closed") }
          guard index > 0 else { return false }
          endRecord(field, state, start, index)
          moveOn(by: index, to: index)
          return true
        }
      }
      let byte = buffer[index]
      if byte == UInt8(ascii: "\n") { nextLine += 1 }
      switch (state, byte) {
      case (.begin, UInt8(ascii: "\"")):
        field.isQuoted = true
        (state, start) = (.quoted, index + 1 - begin)
      case (.quoted, UInt8(ascii: "\"")):
        state = .quote
      case (.quote, UInt8(ascii: "\"")):
        field.hasQuotesInside = true
        state = .quoted
      case (.quoted, _):
        break
      case (_, UInt8(ascii: "\n")):
        endRecord(field, state, start, index - begin)
        moveOn(by: index + 1 - begin, to: index + 1)
        return true
      case (.carriageReturn, _):
        throw afterQuote
      case (_, UInt8(ascii: ",")):
        end(field, start, index - begin)
        field = Field(range: 0..<0, isQuoted: false, hasQuotesInside: false)
        (state, start) = (.begin, index + 1 - begin)
      case (.quote, UInt8(ascii: "\r")):
        state = .carriageReturn
      case (.quote, _):
        throw afterQuote
      case (_, UInt8(ascii: "\"")):
        throw Failure(
          line: line, problem: "a quote stands inside field \(fields.count + 1), which has none around it")
      default:
        state = .plain
      }
      index += 1
    }
  }

  private var afterQuote: Failure {
    Failure(line: line, problem: "something stands after the closing quote of field \(fields.count + 1)")
  }

  /// Ends the last field before a line's end, of which a carriage return is the first half.
  private mutating func endRecord(_ field: Field, _ state: State, _ start: Int, _ end: Int) {
    let isCarriageReturn = end > start && buffer[begin + end - 1] == UInt8(ascii: "\r") && state != .quote
    self.end(field, start, isCarriageReturn ? end - 1 : end)
  }

  /// Ends the field that began at `start`, counted from the record's begin.
  private mutating func end(_ field: Field, _ start: Int, _ end: Int) {
    var field = field
    field.range = start..<(field.isQuoted ? end - 1 : end)
    fields.append(field)
  }

  private mutating func moveOn(by count: Int, to index: Int) {
    offset += Int64(count)
    next = index
  }

  /// Reads more of the file into the buffer; false at its end.
  @discardableResult
  private mutating func fill() throws -> Bool {
    guard let data = try file.read(upToCount: chunk), !data.isEmpty else { return false }
    buffer.append(contentsOf: data)
    return true
  }

  private static func halvingQuotes(_ bytes: ArraySlice<UInt8>) -> [UInt8] {
    var result: [UInt8] = []
    result.reserveCapacity(bytes.count)
    var isSecond = false
    for byte in bytes {
      isSecond = byte == UInt8(ascii: "\"") && !isSecond
      if byte != UInt8(ascii: "\"") || isSecond { result.append(byte) }
    }
    return result
  }
}
