/// The statements that the server has prepared for one connection, by their texts: the least
/// recently used make room for others.
struct PreparedStatements {
  private struct Entry {
    let name: String
    var lastUse: Int
  }

  private let capacity: Int
  private var entries: [PostgreSQLStatement.Key: Entry] = [:]
  private var uses = 0

  /// The names of those that have made room and that the server still keeps.
  private(set) var superfluous: [String] = []

  init(capacity: Int) { self.capacity = capacity }

  /// The name that the statement is prepared under, or nil if it is not.
  mutating func name(of key: PostgreSQLStatement.Key) -> String? {
    uses += 1
    // In place: to look it up and store it again would hash the text twice.
    guard let index = entries.index(forKey: key) else { return nil }
    entries.values[index].lastUse = uses
    return entries.values[index].name
  }

  /// A name for a statement that is going to be prepared. No name is ever given twice.
  mutating func add(_ key: PostgreSQLStatement.Key) -> String {
    if entries.count >= capacity, let oldest = entries.min(by: { $0.value.lastUse < $1.value.lastUse }) {
      entries[oldest.key] = nil
      superfluous.append(oldest.value.name)
    }
    uses += 1
    let name = "s\(uses)"
    entries[key] = Entry(name: name, lastUse: uses)
    return name
  }

  /// Forgets one that could not be prepared.
  mutating func remove(_ key: PostgreSQLStatement.Key) { entries[key] = nil }

  /// The superfluous ones have been deallocated.
  mutating func removeSuperfluous() { superfluous = [] }
}
