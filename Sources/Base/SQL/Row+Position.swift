package import Foundation

// Reading by position, until every reader names its columns.
extension Row {
  package init(values: [Value]) {
    self.init(Columns(values.indices.map { "column_\($0)" }), values: values)
  }

  package func int64(_ index: Int) throws(DatabaseError) -> Int64 { try at(index).int64("it") }
  package func text(_ index: Int) throws(DatabaseError) -> String { try at(index).text("it") }
  package func bytes(_ index: Int) throws(DatabaseError) -> [UInt8] { try at(index).bytes("it") }
  package func flag(_ index: Int) throws(DatabaseError) -> Bool { try at(index).flag("it") }
  package func date(_ index: Int) throws(DatabaseError) -> Date { try at(index).date("it") }
  package func uuid(_ index: Int) throws(DatabaseError) -> UUID { try at(index).uuid("it") }
  package func optionalInt64(_ index: Int) throws(DatabaseError) -> Int64? {
    try at(index).optionalInt64("it")
  }
  package func optionalText(_ index: Int) throws(DatabaseError) -> String? {
    try at(index).optionalText("it")
  }
  package func optionalBytes(_ index: Int) throws(DatabaseError) -> [UInt8]? {
    try at(index).optionalBytes("it")
  }
  package func optionalDate(_ index: Int) throws(DatabaseError) -> Date? { try at(index).optionalDate("it") }

  private func at(_ index: Int) throws(DatabaseError) -> Row {
    guard values.indices.contains(index) else {
      throw DatabaseError(.typeMismatch, "column \(index) was asked of a row that has \(values.count)")
    }
    return Row(Columns(["it"]), values: [values[index]])
  }
}
