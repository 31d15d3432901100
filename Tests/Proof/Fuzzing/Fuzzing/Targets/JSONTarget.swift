import Foundation
import NIOCore

@testable import HTTP
@testable import NextcloudServer
@testable import ZulipBouncer

/// JSON: a value that is written and read again stays the same, and Foundation accepts the same texts.
enum JSONTarget: FuzzTarget {
  static let name = "json"

  static func run(_ bytes: [UInt8]) throws {
    let cut = Result { () throws(JSON.ParseError) in try JSON.parse(ByteBuffer(bytes: bytes), cutBelow: 3) }
    let json: JSON
    do throws(JSON.ParseError) {
      json = try JSON.parse(bytes)
    } catch {
      if case .syntax(let place) = error {
        try check((0...bytes.count).contains(place), "a mistake is somewhere in the text")
      }
      guard error != .depth, error != .tooManyValues else { return }
      try check(!isPlainlyJSON(bytes), "what Foundation takes for JSON is JSON, but: \(error)")
      return
    }
    guard case .success(let cut) = cut else { throw BrokenProperty(description: "cutting spoils nothing") }
    try check(cut.depth <= 3, "what is deeper is cut")
    if json.depth <= 3 { try check(cut == json, "what is not cut stays") }
    try check(json.depth <= JSON.maximumDepth, "depth is limited")
    try check(try? JSON.parse(json.bytes), is: json, "what is written reads the same")
    try check(
      try? JSON.parse(json.php(hexTags: true)), is: json, "what is written as PHP does reads the same")
    try check(json.php(hexTags: true).allSatisfy { $0 < 0x7F + 1 }, "PHP writes ASCII")
    if !json.hasNumber {
      try check(isFoundations(json.bytes), "what is JSON is JSON to Foundation")
    }
    try checkList(bytes, json)
    _ = json.pythonText
    _ = OCSXML.document(["ocs": json])
  }

  private static func checkList(_ bytes: [UInt8], _ json: JSON) throws {
    let list = try JSON.list(String(decoding: bytes, as: UTF8.self)) { value, _ in value }
    guard case .array(let elements) = json else { return try check(list == nil, "only an array is a list") }
    try check(list == elements, "a list's elements are those of its array")
  }

  private static func isFoundations(_ bytes: [UInt8]) -> Bool {
    (try? JSONSerialization.jsonObject(with: Data(bytes), options: .fragmentsAllowed)) != nil
  }

  /// Whether Foundation accepts it, excluding what it accepts beyond RFC 8259: encodings other than UTF-8, a
  /// byte order mark, and a comma before a closing bracket.
  private static func isPlainlyJSON(_ bytes: [UInt8]) -> Bool {
    guard !bytes.contains(0), !bytes.starts(with: [0xEF, 0xBB, 0xBF]), !bytes.starts(with: [0xFE, 0xFF]),
      !bytes.starts(with: [0xFF, 0xFE]), String(validating: bytes, as: UTF8.self) != nil
    else { return false }
    let dense = bytes.filter { $0 > 0x20 }
    guard !zip(dense, dense.dropFirst()).contains(where: { $0 == 0x2C && ($1 == 0x5D || $1 == 0x7D) }) else {
      return false
    }
    return isFoundations(bytes)
  }
}

extension JSON {
  /// Whether there is a number that not every JSON parser can represent.
  fileprivate var hasNumber: Bool {
    switch self {
    case .number: true
    case .array(let elements): elements.contains(where: \.hasNumber)
    case .object(let object): object.members.contains { $0.value.hasNumber }
    default: false
    }
  }
}
