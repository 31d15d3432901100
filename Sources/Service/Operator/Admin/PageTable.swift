/// A table on a page. On a narrow screen each row is a paragraph, which begins with the first column, and each further
/// cell follows its heading: so the columns come in the order of their importance.
struct PageTable: Sendable {
  struct Column: Sendable {
    let heading: String
    let style: String

    static func text(_ heading: String) -> Self { .init(heading: heading, style: "") }
    static func number(_ heading: String) -> Self { .init(heading: heading, style: "n") }
  }

  struct Cell: Sendable {
    let heading: String
    let style: String
    let content: PageText
  }

  struct Row: Sendable {
    let cells: [Cell]
  }

  let columns: [Column]
  /// Stands there while there are no rows.
  let otherwise: String
  private(set) var rows: [Row] = []
  private(set) var hasRows = false

  init(_ columns: Column..., otherwise: String = "") { self.init(columns, otherwise: otherwise) }

  init(_ columns: [Column], otherwise: String) {
    self.columns = columns
    self.otherwise = otherwise
  }

  mutating func add(_ cells: PageText...) { add(cells) }

  mutating func add(_ cells: [PageText]) {
    hasRows = true
    rows.append(
      Row(
        cells: zip(columns, cells).map { column, cell in
          Cell(heading: column.heading, style: column.style, content: cell)
        }))
  }
}
