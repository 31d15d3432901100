import Basics
import Foundation
import HTTP
import Operator

/// A column of a report: members of each row's JSON object, a cell of the table, or both.
struct ReportColumn<Row> {
  let heading: String?
  let isNumber: Bool
  let members: [JSONMember<Row>]
  let cell: (Row) -> Table.Cell

  init(
    _ members: [JSONMember<Row>], _ heading: String? = nil, isNumber: Bool = false,
    cell: @escaping (Row) -> Table.Cell = { _ in .none }
  ) {
    self.heading = heading
    self.isNumber = isNumber
    self.members = members
    self.cell = cell
  }

  static func text(
    _ name: String, _ heading: String?, _ meaning: String = "", shape: JSONShape = .string,
    tone: @escaping (Row) -> Terminal.Tone = { _ in .plain }, _ text: @escaping (Row) -> String
  ) -> Self {
    .init([.member(name, shape, meaning) { .string(text($0)) }], heading) { .init(text($0), tone($0)) }
  }

  static func text(
    _ name: String, _ heading: String?, _ meaning: String = "", missing: Table.Cell = .none,
    _ text: @escaping (Row) -> String?
  ) -> Self {
    .init([.member(name, meaning, text)], heading) { text($0).map { .init($0) } ?? missing }
  }

  /// A number. With a tone, the number is highlighted unless it is zero.
  static func number(
    _ name: String, _ heading: String?, _ meaning: String = "", tone: Terminal.Tone? = nil,
    _ number: @escaping (Row) -> Int64
  ) -> Self {
    .init([.member(name, meaning, number)], heading, isNumber: true) { row in
      .number(number(row), tone)
    }
  }

  /// A time, which the table shows as its age.
  static func age<Time: JSONRepresentable>(
    _ name: String, _ heading: String?, _ meaning: String = "", _ date: @escaping (Row) -> Time
  ) -> Self {
    .init([.member(name, meaning, date)], heading) { .init(Phrase.age(date($0) as? Date)) }
  }

  /// A cell of the table that says whether a server or realm is deactivated.
  static func state(_ isDeactivated: @escaping (Row) -> Bool) -> Self {
    .cell("STATE") { isDeactivated($0) ? .init("deactivated", .doubtful) : .init("active", .good) }
  }

  /// A member of the JSON object that the table does not show.
  static func member<Value: JSONRepresentable>(
    _ name: String, _ meaning: String = "", _ value: @escaping (Row) -> Value
  ) -> Self {
    .init([.member(name, meaning, value)])
  }

  /// Members of the JSON object that the table does not show.
  static func members(_ members: [JSONMember<Row>]) -> Self { .init(members) }

  /// A cell of the table that the JSON object does not contain.
  static func cell(_ heading: String, isNumber: Bool = false, _ cell: @escaping (Row) -> Table.Cell) -> Self {
    .init([], heading, isNumber: isNumber, cell: cell)
  }

  /// The same column for a row type that contains this one.
  func of<Whole>(_ part: @escaping (Whole) -> Row) -> ReportColumn<Whole> {
    .init(members.of(part), heading, isNumber: isNumber) { cell(part($0)) }
  }
}

extension Array {
  /// The members of a row's JSON object.
  func members<Row>() -> [JSONMember<Row>] where Element == ReportColumn<Row> { flatMap(\.members) }

  func table(_ columns: [ReportColumn<Element>]) -> Table {
    let shown = columns.filter { $0.heading != nil }
    var table = Table(columns: shown.map { .init($0.heading ?? "", isNumber: $0.isNumber) })
    for row in self { table.add(cells: shown.map { $0.cell(row) }) }
    return table
  }
}

extension Table.Cell {
  /// With a tone it is highlighted, unless it is zero.
  static func number(_ count: Int64, _ tone: Terminal.Tone? = nil) -> Self {
    .init(Phrase.number(count), tone != nil && count == 0 ? .faint : tone ?? .plain)
  }

  static func optional(_ text: String?) -> Self { text.map { .init($0) } ?? .none }
}

extension GlobalOptions {
  /// Prints a list: with `--json` as a document, otherwise as a table below a sentence.
  ///
  /// - Parameter none: the text for an empty list, before the configuration, database and keys that were
  ///   used.
  func show<Row>(
    _ rows: [Row], _ document: [JSONMember<[Row]>], _ columns: [ReportColumn<Row>], _ sentence: String? = nil,
    none: String
  ) throws {
    if json { return printLine(JSON.object(document.object(rows)).text) }
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
