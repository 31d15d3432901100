internal import Foundation
internal import HTTP

extension Field {
  /// Each element of an array, read.
  func map<Element>(_ read: (Field) throws(APIError) -> Element) throws(APIError) -> [Element] {
    let elements = try elements()
    var results: [Element] = []
    results.reserveCapacity(elements.count)
    for element in elements { results.append(try read(element)) }
    return results
  }

  /// The field, unless it is absent.
  var ifSent: Field? { value == nil ? nil : self }

  /// The field, unless it is null; that it is there is still to be found out.
  var nullable: Field? { value == .null ? nil : self }

  /// Seconds since 1970, in the years that a calendar has.
  func time() throws(APIError) -> Date {
    let seconds = try number()
    guard abs(seconds) < 253_402_300_800 else { throw error("is not a valid time") }
    return Date(timeIntervalSince1970: seconds)
  }

  /// A UUID of version 4.
  func uuid4() throws(APIError) -> UUID {
    guard let uuid = UUID(pythonText: try string()), uuid.isVersion4 else {
      throw error("has invalid format")
    }
    return uuid
  }

  /// One of the texts that the cases stand for.
  func choice<Choice: RawRepresentable>(_: Choice.Type) throws(APIError) -> Choice
  where Choice.RawValue == String {
    guard let text = try existing().string, let choice = Choice(rawValue: text) else {
      throw APIError.invalid(path)
    }
    return choice
  }
}

/// Hummingbird has parameters of its own, those of a path.
typealias Parameters = HTTP.Parameters
