internal import Foundation

extension Setting {
  static let prefix = "PUSH_BOUNCER_"

  /// `PUSH_BOUNCER_HTTP_PORT`
  var variable: String {
    Self.prefix + key.uppercased().replacing(".", with: "_")
  }

  /// The key of a variable as far as it can be told: `HTTP_MAX_BODY_BYTES` has more than one.
  static func key(ofVariable variable: String) -> String {
    let name = variable.dropFirst(prefix.count).lowercased()
    return all.first { $0.key.replacing(".", with: "_") == name }?.key ?? name.replacing("_", with: ".")
  }

  /// `http`
  var section: Substring { key.prefix { $0 != "." } }

  /// The setting with this key.
  static func named(_ key: String) -> Setting? { all.first { $0.key == key } }

  /// The key that somebody has most likely meant, if one is close enough.
  static func nearest(to key: String) -> String? {
    guard key.utf8.count <= 60 else { return nil }
    let distances = all.map { (key: $0.key, distance: distance(key, $0.key)) }
    guard let nearest = distances.min(by: { $0.distance < $1.distance }) else { return nil }
    return nearest.distance <= max(2, key.utf8.count / 4) ? nearest.key : nil
  }

  /// How many letters have to be put in, taken out or changed to make one text of the other (Levenshtein).
  private static func distance(_ left: String, _ right: String) -> Int {
    let right = Array(right.utf8)
    var row = Array(0...right.count)
    for (index, letter) in left.utf8.enumerated() {
      var diagonal = row[0]
      row[0] = index + 1
      for column in right.indices {
        let change = diagonal + (letter == right[column] ? 0 : 1)
        diagonal = row[column + 1]
        row[column + 1] = min(change, row[column] + 1, diagonal + 1)
      }
    }
    return row[right.count]
  }

  /// A value as the log may show it.
  func shown(_ value: String) -> String {
    switch secrecy {
    case .none: return value
    case .whole: return value.isEmpty ? "" : Self.redacted
    case .password:
      // What cannot be taken apart is shown only if it has no place for a password.
      guard var url = URLComponents(string: value, encodingInvalidCharacters: false) else {
        return value.contains("@") || value.contains("?") ? Self.redacted : value
      }
      url.password = url.password.map { _ in "redacted" }
      url.queryItems = url.queryItems?.map { item in
        item.name.lowercased().contains("password") ? URLQueryItem(name: item.name, value: "redacted") : item
      }
      return url.string ?? Self.redacted
    }
  }

  private static let redacted = "(redacted)"
}
