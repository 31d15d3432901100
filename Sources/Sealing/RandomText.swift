/// Random texts for keys and secrets that people and configuration files carry.
package enum RandomText {
  private static let alphanumerics = Array(
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789".utf8)

  /// `count` letters and digits, each drawn evenly from 62 by the system's generator.
  package static func alphanumeric(_ count: Int) -> String {
    var generator = SystemRandomNumberGenerator()
    return String(
      decoding: (0..<count).map { _ in
        alphanumerics[Int.random(in: 0..<alphanumerics.count, using: &generator)]
      },
      as: UTF8.self)
  }
}
