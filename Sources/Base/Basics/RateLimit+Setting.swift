extension SettingShape<RateLimit?> {
  /// A rate limit; nil, written as `0`, means none. An empty value is invalid, so that nobody removes the limit by
  /// accident.
  package static var rate: SettingShape {
    SettingShape(
      expected: "a rate like 1000/60s, or 0 for no limit", example: "1000/60s",
      parse: { RateLimit.rate($0) })
  }
}

extension RateLimit {
  /// Parses `1000/60s`. `0` gives `.some(nil)`, which is no limit; an invalid text gives nil.
  package static func rate(_ text: String) -> RateLimit?? {
    if text == "0" { return .some(nil) }
    let parts = text.split(separator: "/", omittingEmptySubsequences: false)
    guard parts.count == 2, let calls = Int(parts[0]), calls > 0,
      let window = Quantity.duration(String(parts[1])),
      window > .zero
    else { return nil }
    return RateLimit(calls: calls, seconds: window / .seconds(1))
  }
}
