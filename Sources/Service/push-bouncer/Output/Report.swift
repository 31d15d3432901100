import Foundation
import HTTP
import Operator
import Settings

/// A column of a report: a member of each row's JSON object, a cell of the table, or both.
struct ReportColumn<Row> {
  let key: String?
  let heading: String?
  var isNumber = false
  let json: (Row) -> JSON
  let cell: (Row) -> Table.Cell

  static func text(
    _ key: String?, _ heading: String?, missing: Table.Cell = .none,
    tone: @escaping (Row) -> Terminal.Tone = { _ in .plain }, _ text: @escaping (Row) -> String?
  ) -> Self {
    .init(key: key, heading: heading) {
      .optional(text($0))
    } cell: { row in
      text(row).map { .init($0, tone(row)) } ?? missing
    }
  }

  /// A number. With a tone, the number is highlighted unless it is zero.
  static func number(
    _ key: String?, _ heading: String?, _ tone: Terminal.Tone? = nil, _ number: @escaping (Row) -> Int64
  ) -> Self {
    .init(key: key, heading: heading, isNumber: true) {
      .integer(number($0))
    } cell: {
      let count = number($0)
      return .init(Phrase.number(count), tone != nil && count == 0 ? .faint : tone ?? .plain)
    }
  }

  /// A time, which the table shows as its age.
  static func age(_ key: String?, _ heading: String?, _ date: @escaping (Row) -> Date?) -> Self {
    .init(key: key, heading: heading) {
      timestamp(date($0))
    } cell: {
      .init(Phrase.age(date($0)))
    }
  }

  static func state(_ isDeactivated: @escaping (Row) -> Bool) -> Self {
    .init(key: "deactivated", heading: "STATE") {
      .bool(isDeactivated($0))
    } cell: {
      isDeactivated($0) ? .init("deactivated", .doubtful) : .init("active", .good)
    }
  }

  /// A member of the JSON object that the table does not show.
  static func member(_ key: String, _ json: @escaping (Row) -> JSON) -> Self {
    .init(key: key, heading: nil, json: json) { _ in .none }
  }

  /// A cell of the table that the JSON object does not contain.
  static func cell(_ heading: String, isNumber: Bool = false, _ cell: @escaping (Row) -> Table.Cell) -> Self {
    .init(key: nil, heading: heading, isNumber: isNumber, json: { _ in .null }, cell: cell)
  }

  /// The same column for a row type that contains this one.
  func of<Whole>(_ part: @escaping (Whole) -> Row) -> ReportColumn<Whole> {
    .init(key: key, heading: heading, isNumber: isNumber) {
      json(part($0))
    } cell: {
      cell(part($0))
    }
  }
}

extension Array {
  /// The members of the JSON object for one row.
  func members<Row>(_ row: Row) -> [JSON.Object.Member] where Element == ReportColumn<Row> {
    compactMap { column in column.key.map { .init($0, column.json(row)) } }
  }

  func json<Row>(_ row: Row) -> JSON where Element == ReportColumn<Row> { .object(JSON.Object(members(row))) }

  /// The rows as an array of objects.
  func json(_ columns: [ReportColumn<Element>]) -> JSON { .array(map { columns.json($0) }) }

  func table(_ columns: [ReportColumn<Element>]) -> Table {
    let shown = columns.filter { $0.heading != nil }
    var table = Table(columns: shown.map { .init($0.heading ?? "", isNumber: $0.isNumber) })
    for row in self { table.add(cells: shown.map { $0.cell(row) }) }
    return table
  }
}

extension Table.Cell {
  static func optional(_ text: String?) -> Self { text.map { .init($0) } ?? .none }
}

extension GlobalOptions {
  /// Prints a list: with `--json` as the member `name` of a document, otherwise as a table below a sentence.
  ///
  /// - Parameter none: the text for an empty list, before the configuration, database and keys that were
  ///   used.
  func show<Row>(
    _ name: String, _ rows: [Row], _ columns: [ReportColumn<Row>], _ sentence: String? = nil, none: String
  ) throws {
    if json { return tell(JSON.object([name: rows.json(columns)]).text) }
    guard !rows.isEmpty else {
      tell(none)
      return note(try read().0.whereabouts)
    }
    var page = Page()
    if let sentence {
      page.add(sentence)
      page.add()
    }
    page.add(rows.table(columns))
    page.print()
  }
}

/// RFC 3339 in UTC, to the second.
func timestamp(_ date: Date?) -> JSON {
  date.map { .string($0.formatted(.iso8601)) } ?? .null
}
