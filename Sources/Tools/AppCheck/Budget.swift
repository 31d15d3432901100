internal import Synchronization

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

  private struct Spent {
    var (bytes, steps) = (0, 0)
    /// The number of steps at which the clock is looked at again.
    var lookAt = 0
  }

  private let spent = Mutex(Spent())
  private let end = ContinuousClock.now + duration

  /// Pays for bytes that are read or unpacked.
  func read(_ bytes: Int) throws(Exceeded) {
    try pay(bytes, \.bytes, Self.bytes, "more than \(Self.bytes >> 20) MB to be read")
    try lookAtClock()
  }

  /// Pays for values, each of which is compared with the others.
  func values(_ count: Int) throws(Exceeded) { try step(2_000 * count) }

  func step(_ count: Int = 1) throws(Exceeded) {
    try pay(count, \.steps, Self.steps, "more than \(Self.steps) parts to be looked at")
    let isTime = spent.withLock { spent in
      guard spent.steps >= spent.lookAt else { return false }
      spent.lookAt = spent.steps + 10_000
      return true
    }
    if isTime { try lookAtClock() }
  }

  private func lookAtClock() throws(Exceeded) {
    guard ContinuousClock.now < end else {
      throw Exceeded(what: "more to be looked at than \(Self.duration.components.seconds) seconds allow")
    }
  }

  private func pay(
    _ count: Int, _ kind: WritableKeyPath<Spent, Int>, _ limit: Int, _ what: @autoclosure () -> String
  ) throws(Exceeded) {
    let total = spent.withLock { spent in
      spent[keyPath: kind] += count
      return spent[keyPath: kind]
    }
    guard total <= limit else { throw Exceeded(what: what()) }
  }
}
