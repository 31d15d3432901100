import HTTP

/// The capabilities that the operator's file adds to those of the built-in Nextcloud server (`nextcloud.capabilities_file`).
/// By them apps decide what they show and whether they sign in at all; the host application serves what they announce.
package struct AddedCapabilities: Sendable {
  /// The largest file in bytes. A stock server with all its usual apps has about 20 KiB of capabilities.
  package static let maximumBytes = 64 << 10

  /// Thrown for an invalid file, with what is wrong with it.
  package struct Malformed: Error, Hashable, CustomStringConvertible {
    package let description: String
  }

  private let members: JSON.Object

  /// Adds nothing.
  package init() { members = [:] }

  /// Reads the file's content: a JSON object.
  package init(_ bytes: [UInt8]) throws(Malformed) {
    let document: JSON
    do {
      document = try JSON.parse(bytes)
    } catch {
      throw Malformed(description: "is no JSON: \(error.explanation(in: bytes))")
    }
    guard case .object(let members) = document else {
      throw Malformed(description: "is no JSON object, such as {\"spreed\": {\"features\": [...]}}")
    }
    guard members["ocs"] == nil else {
      throw Malformed(
        description: "has a server's whole answer; only what is in ocs.data.capabilities belongs there")
    }
    self.members = members
  }

  /// The names of the members, in the file's order.
  package var names: [String] { members.members.map(\.name.text) }

  /// Whether the apps of Nextcloud Talk take the server for one with Talk.
  package var includesTalk: Bool {
    JSON.object(members)["spreed"]?["features"]?.elements.isEmpty == false
  }

  /// Capabilities with these members merged into them.
  func added(to capabilities: JSON.Object) -> JSON.Object { capabilities.merged(with: members) }
}

extension JSON.Object {
  /// An object with these members and those of `other`. If both have a member, objects are merged in turn, and any other
  /// value of `other` replaces this one's.
  fileprivate func merged(with other: JSON.Object) -> JSON.Object {
    var rest = other
    let own = members.map { member in
      guard let value = rest[member.name.text] else { return member }
      rest[member.name.text] = nil
      guard case .object(let mine) = member.value, case .object(let others) = value else {
        return Member(member.name, value)
      }
      return Member(member.name, .object(mine.merged(with: others)))
    }
    return JSON.Object(own + rest.members)
  }
}
