import Synchronization

/// What may be spent on one app. Apps come from anybody, and root reads them on the machine of the service: so
/// whatever is read, unpacked or followed is paid for here, and what costs more than any real app is not read on.
final class Budget: Sendable {
  struct Exceeded: Error, Sendable {
    /// `more than 200000 files`
    let what: String
  }

  static let tooDeep = Exceeded(what: "lists inside one another, more than \(depth) deep")

  /// Files of a folder, or entries of an archive.
  static let files = 200_000
  /// Bytes of a file with source.
  static let text = 4 << 20
  /// Bytes of a part of a package that is held in memory, such as its resources. Code is searched in pieces.
  static let part = 32 << 20
  /// Bytes that are read or unpacked in all, names among them. An app's code has some 30 MB for each processor.
  static let bytes = 512 << 20
  /// How deep lists, folders of settings and constants may lie in one another.
  static let depth = 32
  /// Tokens of source, members of lists and messages, entries of tables.
  static let steps = 4_000_000
  /// Bytes of a value.
  static let value = 1_024
  static let duration: Duration = .seconds(60)

  private let bytes = Atomic(0)
  private let steps = Atomic(0)
  private let end = ContinuousClock.now + duration

  /// Pays for bytes that are read or unpacked.
  func read(_ count: Int) throws(Exceeded) {
    guard bytes.wrappingAdd(count, ordering: .relaxed).newValue <= Self.bytes else {
      throw Exceeded(what: "more than \(Self.bytes >> 20) MB to be read")
    }
    try lookAtClock()
  }

  /// Pays for values, each of which is compared with the others.
  func values(_ count: Int) throws(Exceeded) { try step(2_000 * count) }

  func step(_ count: Int = 1) throws(Exceeded) {
    let (before, after) = steps.wrappingAdd(count, ordering: .relaxed)
    guard after <= Self.steps else { throw Exceeded(what: "more than \(Self.steps) parts to be looked at") }
    if before / 10_000 != after / 10_000 { try lookAtClock() }
  }

  private func lookAtClock() throws(Exceeded) {
    guard ContinuousClock.now < end else {
      throw Exceeded(what: "more to be looked at than \(Self.duration.components.seconds) seconds allow")
    }
  }
}
