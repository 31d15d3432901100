package import Foundation

/// A member of the JSON objects that this program prints of values of one type. What encodes it is what
/// `Documentation/JSON.md` and the schemas of `Documentation/OpenAPI` are made from: a list of these is an object's shape.
package struct JSONMember<Whole> {
  package let field: JSONField
  /// Nil leaves the member out.
  package let value: (Whole) -> JSON?
}

/// A member, as pages describe it.
package struct JSONField: Sendable {
  package let name: String
  package let shape: JSONShape
  /// False if it may be absent.
  package let isAlwaysThere: Bool
  /// In Markdown; empty where the name says it.
  package let meaning: String
}

/// What a value may be.
package indirect enum JSONShape: Sendable {
  case string, integer, number, boolean
  /// RFC 3339 in UTC.
  case time
  /// One of these strings. Later versions may have more.
  case oneOf([String])
  case list(JSONShape)
  case object([JSONField])
  case orNull(JSONShape)

  /// The strings of an enumeration.
  package static func oneOf<Values: CaseIterable & RawRepresentable<String>>(_: Values.Type) -> Self {
    .oneOf(Values.allCases.map(\.rawValue))
  }
}

/// A value that is printed in one way wherever it stands.
package protocol JSONRepresentable {
  static var jsonShape: JSONShape { get }
  var json: JSON { get }
}

extension String: JSONRepresentable {
  package static var jsonShape: JSONShape { .string }
  package var json: JSON { .string(self) }
}

extension Bool: JSONRepresentable {
  package static var jsonShape: JSONShape { .boolean }
  package var json: JSON { .bool(self) }
}

extension Int64: JSONRepresentable {
  package static var jsonShape: JSONShape { .integer }
  package var json: JSON { .integer(self) }
}

extension Int: JSONRepresentable {
  package static var jsonShape: JSONShape { .integer }
  package var json: JSON { .integer(Int64(self)) }
}

extension Date: JSONRepresentable {
  package static var jsonShape: JSONShape { .time }
  package var json: JSON { .time(self) }
}

extension Optional: JSONRepresentable where Wrapped: JSONRepresentable {
  package static var jsonShape: JSONShape { .orNull(Wrapped.jsonShape) }
  package var json: JSON { self?.json ?? .null }
}

extension Array: JSONRepresentable where Element: JSONRepresentable {
  package static var jsonShape: JSONShape { .list(Element.jsonShape) }
  package var json: JSON { .array(map(\.json)) }
}

extension JSONRepresentable where Self: CaseIterable & RawRepresentable<String> {
  package static var jsonShape: JSONShape { .oneOf(Self.self) }
  package var json: JSON { .string(rawValue) }
}

extension JSONMember {
  /// A member whose type says its shape.
  package static func member<Value: JSONRepresentable>(
    _ name: String, _ meaning: String = "", _ value: @escaping (Whole) -> Value
  ) -> Self {
    .member(name, Value.jsonShape, meaning) { value($0).json }
  }

  /// - Parameter isAlwaysThere: false if `value` may be nil, which leaves the member out.
  package static func member(
    _ name: String, _ shape: JSONShape, _ meaning: String = "", isAlwaysThere: Bool = true,
    _ value: @escaping (Whole) -> JSON?
  ) -> Self {
    .init(
      field: JSONField(name: name, shape: shape, isAlwaysThere: isAlwaysThere, meaning: meaning), value: value
    )
  }

  package static func object<Part>(
    _ name: String, _ meaning: String = "", of members: [JSONMember<Part>], _ part: @escaping (Whole) -> Part
  ) -> Self {
    .member(name, .object(members.fields()), meaning) { .object(members.object(part($0))) }
  }

  package static func object<Part>(
    _ name: String, _ meaning: String = "", orNull members: [JSONMember<Part>],
    _ part: @escaping (Whole) -> Part?
  ) -> Self {
    .member(name, .orNull(.object(members.fields())), meaning) { whole in
      part(whole).map { .object(members.object($0)) } ?? .null
    }
  }

  package static func list<Part>(
    _ name: String, _ meaning: String = "", of members: [JSONMember<Part>],
    _ parts: @escaping (Whole) -> [Part]
  ) -> Self {
    .member(name, .list(.object(members.fields())), meaning) { members.list(parts($0)) }
  }

  /// The same member of what contains its whole.
  package func of<Larger>(_ whole: @escaping (Larger) -> Whole) -> JSONMember<Larger> {
    .init(field: field) { value(whole($0)) }
  }

  /// The same member where it may be absent: in an object that lacks all of these.
  package func ifThere<Larger>(_ whole: @escaping (Larger) -> Whole?) -> JSONMember<Larger> {
    .member(field.name, field.shape, field.meaning, isAlwaysThere: false) { whole($0).flatMap(value) }
  }
}

extension JSONMember {
  /// The same member where it is null: in an object that lacks all of these.
  package func orNull<Larger>(_ whole: @escaping (Larger) -> Whole?) -> JSONMember<Larger> {
    .member(field.name, field.shape.orNull, field.meaning) { whole($0).flatMap(value) ?? .null }
  }
}

extension JSONShape {
  fileprivate var orNull: JSONShape { if case .orNull = self { self } else { .orNull(self) } }
}

extension Array {
  package func object<Whole>(_ whole: Whole) -> JSON.Object where Element == JSONMember<Whole> {
    JSON.Object(compactMap { member in member.value(whole).map { .init(member.field.name, $0) } })
  }

  package func list<Whole>(_ wholes: [Whole]) -> JSON where Element == JSONMember<Whole> {
    .array(wholes.map { .object(object($0)) })
  }

  package func fields<Whole>() -> [JSONField] where Element == JSONMember<Whole> { map(\.field) }

  package func of<Whole, Larger>(_ whole: @escaping (Larger) -> Whole) -> [JSONMember<Larger>]
  where Element == JSONMember<Whole> {
    map { $0.of(whole) }
  }
}
