/// The parts of a request that this program does not know. A newer sender may have added them, so they are ignored,
/// counted and logged once (`Documentation/Decisions` 0029).
package struct Additions: Sendable {
  package enum Kind: String, Sendable, CaseIterable {
    /// A member of a JSON object.
    case member
    /// A field of a form or of the query.
    case parameter
    /// A value of an enumeration.
    case value
  }

  package struct Addition: Sendable, Hashable {
    package let kind: Kind
    /// Where it stands, and its name or value: `realms[].description`, `realms[].org_type: 33`.
    package let text: String
  }

  /// The number of different additions of a request that are counted by name.
  private static let maximum = 16

  /// Maximum size in bytes of what is not known in a request and passed on to another service that may know it.
  package static let maximumPassedOn = 16_384

  /// The number of occurrences of each addition.
  package private(set) var counts: [Addition: Int] = [:]

  package init() {}

  /// Adds the unknown members of an object; nothing for any other value.
  ///
  /// - Parameter place: where the object stands, without the numbers of elements; empty for a whole body.
  package mutating func addMembers(of json: JSON?, at place: String = "", except known: [Name]) {
    guard case .object(let object)? = json else { return }
    for member in object.members where !known.contains(member.name) {
      add(.member, "\(place.isEmpty ? "" : "\(place).")\(Self.shown(member.name.text))")
    }
  }

  /// The members of an object that are not known, to be passed on; none if they are longer than ``maximumPassedOn``.
  package static func members(of json: JSON?, except known: [Name]) -> JSON.Object {
    guard case .object(let object)? = json else { return [:] }
    let others = JSON.Object(object.members.filter { !known.contains($0.name) })
    return others.members.isEmpty || JSON.object(others).bytes.count > maximumPassedOn ? [:] : others
  }

  package mutating func addParameters(_ names: some Sequence<Name>) {
    for name in names { add(.parameter, Self.shown(name.text)) }
  }

  package mutating func addValue(_ value: String, of place: String) {
    add(.value, "\(place): \(Self.shown(value))")
  }

  private mutating func add(_ kind: Kind, _ text: String) {
    let addition = Addition(kind: kind, text: text)
    guard counts.count < Self.maximum || counts[addition] != nil else {
      counts[Addition(kind: kind, text: Self.other), default: 0] += 1
      return
    }
    counts[addition, default: 0] += 1
  }

  private static let other = "(other)"

  /// The name for the log. Longer names, and those with other characters, may be senders' data and are not shown.
  private static func shown(_ name: String) -> String {
    name.isName(1...48, with: "_-.:") ? name : other
  }

  package mutating func add(_ others: Additions) {
    counts.merge(others.counts, uniquingKeysWith: +)
  }
}
