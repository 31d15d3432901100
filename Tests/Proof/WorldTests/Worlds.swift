import Foundation

/// The program of simulated worlds, as somebody calls it. It runs in a process of its own, whose time and chance are not
/// the tests'.
struct Worlds {
  let output: String
  let status: Int32

  static func run(_ arguments: String...) throws -> Worlds { try run(arguments) }

  static func run(_ arguments: [String]) throws -> Worlds {
    let process = Process()
    // Beside the tests: `swift build --build-tests` makes both.
    process.executableURL = URL(filePath: CommandLine.arguments[0]).deletingLastPathComponent()
      .appending(path: "simulated-world")
    process.arguments = arguments
    let pipe = Pipe()
    process.standardOutput = pipe
    try process.run()
    let output = String(decoding: pipe.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
    process.waitUntilExit()
    return Worlds(output: output, status: process.terminationStatus)
  }

  /// The first line of a kind: `seed 3: nothing arrives twice: ...`
  var violation: String? {
    output.split(separator: "\n").first { $0.hasPrefix("seed ") }.map(String.init)
  }
}
