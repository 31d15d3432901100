import Basics
import Foundation
import HTTP
import Operator

/// A column of a report: a member of each row's JSON object, a cell of the table, or both.
struct ReportColumn<Row> {
  let heading: String?
  let isNumber: Bool
  let members: (Row) -> [JSON.Object.Member]
  let cell: (Row) -> Table.Cell

  private init(
    heading: String?, isNumber: Bool, members: @escaping (Row) -> [JSON.Object.Member],
    cell: @escaping (Row) -> Table.Cell
  ) {
    self.heading = heading
    self.isNumber = isNumber
    self.members = members
    self.cell = cell
  }

  init(
    key: String?, heading: String?, isNumber: Bool = false, json: @escaping (Row) -> JSON,
    cell: @escaping (Row) -> Table.Cell
  ) {
    self.init(
      heading: heading, isNumber: isNumber,
      members: { row in key.map { [.init($0, json(row))] } ?? [] }, cell: cell)
  }

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
      .time(date($0))
    } cell: {
      .init(Phrase.age(date($0)))
    }
  }

  /// A cell of the table that says whether a server or realm is deactivated.
  static func state(_ isDeactivated: @escaping (Row) -> Bool) -> Self {
    .cell("STATE") { isDeactivated($0) ? .init("deactivated", .doubtful) : .init("active", .good) }
  }

  /// A member of the JSON object that the table does not show.
  static func member(_ key: String, _ json: @escaping (Row) -> JSON) -> Self {
    .init(key: key, heading: nil, json: json) { _ in .none }
  }

  /// Several members of the JSON object that the table does not show.
  static func members(_ object: @escaping (Row) -> JSON.Object) -> Self {
    .init(heading: nil, isNumber: false) {
      object($0).members
    } cell: { _ in
      .none
    }
  }

  /// A cell of the table that the JSON object does not contain.
  static func cell(_ heading: String, isNumber: Bool = false, _ cell: @escaping (Row) -> Table.Cell) -> Self {
    .init(key: nil, heading: heading, isNumber: isNumber, json: { _ in .null }, cell: cell)
  }

  /// The same column for a row type that contains this one.
  func of<Whole>(_ part: @escaping (Whole) -> Row) -> ReportColumn<Whole> {
    .init(heading: heading, isNumber: isNumber) {
      members(part($0))
    } cell: {
      cell(part($0))
    }
  }
}

extension Array {
  /// The members of the JSON object for one row.
  func members<Row>(_ row: Row) -> [JSON.Object.Member] where Element == ReportColumn<Row> {
    flatMap { $0.members(row) }
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
    if json { return printLine(JSON.object([name: rows.json(columns)]).text) }
    guard !rows.isEmpty else {
      printLine(none)
      return printError(try read().0.whereabouts)
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
