/// A JSON object whose fields are all known.
struct StrictFields<Key: CodingKey & CaseIterable> {
  private struct AnyKey: CodingKey {
    var stringValue: String
    var intValue: Int? { nil }

    init(stringValue: String) {
      self.stringValue = stringValue
    }

    init?(intValue: Int) {
      nil
    }
  }

  private let container: KeyedDecodingContainer<Key>

  init(_ decoder: any Decoder) throws {
    for key in try decoder.container(keyedBy: AnyKey.self).allKeys where Key(stringValue: key.stringValue) == nil {
      throw DecodingError.dataCorrupted(
        .init(codingPath: [key], debugDescription: "there is no field \(key.stringValue)"))
    }
    container = try decoder.container(keyedBy: Key.self)
  }

  func value<Value: Decodable>(_ key: Key) throws -> Value? {
    try container.decodeIfPresent(Value.self, forKey: key)
  }

  func number(_ key: Key, _ range: ClosedRange<Int>) throws -> Int? {
    guard let number: Int = try value(key) else { return nil }
    guard range.contains(number) else {
      throw DecodingError.dataCorruptedError(
        forKey: key, in: container, debugDescription: "\(key.stringValue) is out of range")
    }
    return number
  }

  /// A header's value: a number, or text that can be one.
  func numberOrText(_ key: Key) throws -> String? {
    if let number = try? container.decodeIfPresent(Int.self, forKey: key) { return String(number) }
    let text: String? = try value(key)
    guard text?.utf8.allSatisfy({ (0x20...0x7e).contains($0) }) ?? true else {
      throw DecodingError.dataCorruptedError(
        forKey: key, in: container, debugDescription: "\(key.stringValue) is not printable ASCII")
    }
    return text
  }
}
