/// A table in the overview of `/admin`.
package struct AdminTable: Sendable {
  package enum Column: Sendable {
    case text(String)
    case number(String)
    /// A number that is bad unless it is 0.
    case failures(String)
  }

  package enum Cell: Sendable {
    case text(String)
    case number(Int64)
  }

  package let title: String
  package let columns: [Column]
  /// What stands there while there are no rows.
  package let otherwise: String
  /// As many cells in each as there are columns.
  package let rows: [[Cell]]

  package init(_ title: String, _ columns: [Column], otherwise: String, rows: [[Cell]]) {
    self.title = title
    self.columns = columns
    self.otherwise = otherwise
    self.rows = rows
  }
}

/// What a feature knows of a chat server, under a title.
package struct AdminFact: Sendable {
  package struct Sentence: Sendable {
    package let text: String
    /// Whether it tells of something to mend.
    package let isBad: Bool

    package init(_ text: String, isBad: Bool = false) {
      self.text = text
      self.isBad = isBad
    }
  }

  package let title: String
  package let sentences: [Sentence]

  package init(_ title: String, _ sentences: [Sentence]) {
    self.title = title
    self.sentences = sentences
  }
}
