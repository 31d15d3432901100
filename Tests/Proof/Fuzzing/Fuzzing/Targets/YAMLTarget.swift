import Foundation

@testable import Basics
@testable import Operator

/// The configuration file: it is read, or an error says why not in printable text.
enum YAMLTarget: FuzzTarget {
  static let name = "yaml"
  // The YAML library is not optimized in this build, and a key of one letter costs it as much as one of
  // twenty. In a release build, 8,000 duplicate keys take 38 ms, and 128,000 take 450 ms.
  static let timePerByte = 20_000.0

  private static let file = InputFile("push-bouncer.yaml")

  static func run(_ bytes: [UInt8]) throws {
    file.write(bytes)
    do throws(Fault) {
      _ = try Configuration.load(file: file.path, environment: [:], overrides: [:], workingDirectory: "/")
    } catch {
      let text = "\(error)"
      try check(
        !text.isEmpty && text.utf8.count < 4096, "a fault can be read: it has \(text.utf8.count) bytes")
    }
  }
}
