/// Where in the database a sealed value stands: its column, and what of its row never changes. Both are authenticated
/// along, so that a value which somebody has moved to another row opens there as little as one under another key.
package struct SealedPlace: Sendable {
  /// What it is told by in logs and metrics.
  package let column: String
  /// The column's name, ended by a zero, and each part with its kind and length: no two places look alike.
  private(set) var associatedData: [UInt8]

  /// A place in a column, by the column's name; the row follows, part by part.
  package init(column: String) {
    self.column = column
    associatedData = Array(column.utf8)
    associatedData.append(0)
  }

  /// The next part of the row's identity; nil stands for NULL.
  package mutating func append(_ number: Int64?) {
    guard let number else { return associatedData.append(0) }
    associatedData.append(1)
    withUnsafeBytes(of: number.bigEndian) { associatedData.append(contentsOf: $0) }
  }

  /// The next part of the row's identity.
  package mutating func append(text: String) { append(2, text.utf8) }

  /// The next part of the row's identity.
  package mutating func append(bytes: [UInt8]) { append(3, bytes) }

  private mutating func append(_ kind: UInt8, _ bytes: some Collection<UInt8>) {
    associatedData.append(kind)
    withUnsafeBytes(of: UInt64(bytes.count).bigEndian) { associatedData.append(contentsOf: $0) }
    associatedData.append(contentsOf: bytes)
  }
}
