import Delivery
import HTTP
import Operator
import Providers
import ZulipBouncer

/// Schemas of OpenAPI, in YAML, made from what encodes this program's own answers.
struct Schemas {
  /// The envelope of an answer may be around an object that is open.
  let named: [(name: String, fields: [JSONField], isOpen: Bool)]

  static var all: Schemas {
    Schemas(named: [
      ("RegistrationStatus", FoundDevice.members(for: .chatServer).fields(), false),
      ("PushStatusAnswer", PushStatus.members.fields(), true),
      ("AcceptedDelivery", AcceptedDelivery.members.fields(), false),
      ("UnservedTarget", UnservedReport.members.fields(), false),
    ])
  }

  /// A part of `components: schemas:`; nil for an unknown name.
  func text(of name: String) -> String? {
    guard let schema = named.first(where: { $0.name == name }) else { return nil }
    return
      (["    \(name):", "      type: object"] + object(schema.fields, indent: 6)
      + (schema.isOpen ? [] : ["      additionalProperties: false"])).joined(separator: "\n")
  }

  private func object(_ fields: [JSONField], indent: Int) -> [String] {
    let space = String(repeating: " ", count: indent)
    let required = fields.filter(\.isAlwaysThere).map(\.name).joined(separator: ", ")
    return ["\(space)required: [\(required)]", "\(space)properties:"]
      + fields.flatMap { field(_: $0, indent: indent + 2) }
  }

  private func field(_ field: JSONField, indent: Int) -> [String] {
    let space = String(repeating: " ", count: indent)
    let meaning = field.meaning.replacing(/\[([^\]]*)\]\([^)]*\)/) { "\($0.output.1)" }.replacing(
      "'", with: "''")
    let description = meaning.isEmpty ? nil : "description: '\(meaning)'"
    if let type = inline(field.shape) {
      return ["\(space)\(field.name): {\([type, description].compactMap(\.self).joined(separator: ", "))}"]
    }
    return ["\(space)\(field.name):"] + [description].compactMap { $0.map { "\(space)  \($0)" } }
      + block(field.shape, indent: indent + 2)
  }

  /// What fits into a line; nil for an object that has no name of its own.
  private func inline(_ shape: JSONShape) -> String? {
    switch shape {
    case .string: "type: string"
    case .integer: "type: integer"
    case .number: "type: number"
    case .boolean: "type: boolean"
    case .time: "type: string, format: date-time"
    case .oneOf(let texts): "enum: [\(texts.joined(separator: ", "))]"
    case .list(let shape): inline(shape).map { "type: array, items: {\($0)}" }
    case .object(let fields):
      named.first { $0.fields.map(\.name) == fields.map(\.name) }.map {
        "$ref: '#/components/schemas/\($0.name)'"
      }
    case .orNull(.string): "type: [string, 'null']"
    case .orNull(.integer): "type: [integer, 'null']"
    case .orNull(.number): "type: [number, 'null']"
    case .orNull(.boolean): "type: [boolean, 'null']"
    case .orNull(.time): "type: [string, 'null'], format: date-time"
    case .orNull(.oneOf(let texts)): "enum: [\((texts + ["null"]).joined(separator: ", "))]"
    case .orNull(let shape): inline(shape).map { "oneOf: [{type: 'null'}, {\($0)}]" }
    }
  }

  private func block(_ shape: JSONShape, indent: Int) -> [String] {
    let space = String(repeating: " ", count: indent)
    let end = ["\(space)additionalProperties: false"]
    return switch shape {
    case .object(let fields): ["\(space)type: object"] + object(fields, indent: indent) + end
    case .orNull(.object(let fields)):
      ["\(space)type: [object, 'null']"] + object(fields, indent: indent) + end
    case .list(let element):
      ["\(space)type: array", "\(space)items:"] + block(element, indent: indent + 2)
    case .string, .integer, .number, .boolean, .time, .oneOf, .orNull: []
    }
  }
}
