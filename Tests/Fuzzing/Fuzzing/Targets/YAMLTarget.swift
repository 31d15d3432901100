import Foundation

@testable import Operations

/// The configuration's file: it is read, or a fault says why not, in words that can be shown.
enum YAMLTarget: FuzzTarget {
  static let name = "yaml"
  // The library is not optimized here, and a key of one letter costs it as much as one of twenty. Released, 8,000 keys
  // that are there twice take 38 ms and 128,000 take 450.
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
