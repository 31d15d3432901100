import ArgumentParser
import Demo
import Foundation
import Logging
import Operations

/// `demo`: the whole story on this machine.
struct DemoCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "demo",
    abstract:
      "Plays the whole story on this machine, in a temporary folder; exits 0 only if every step happened.")

  @OptionGroup var options: GlobalOptions
  @Flag(help: "Leave everything running afterwards, to try by hand.") var keep = false

  func run() async throws {
    bootstrapLogging(level: .error, format: .text)
    let folder = FileManager.default.temporaryDirectory.appending(
      path: "push-bouncer-demo-\(UUID().uuidString.prefix(8))")
    try FileManager.default.createDirectory(
      at: folder, withIntermediateDirectories: false, attributes: [.posixPermissions: 0o700])
    defer { if !keep { try? FileManager.default.removeItem(at: folder) } }
    do {
      try await Story.play(in: folder, stays: keep, tell: { tell($0) })
    } catch let interruption as Story.Interruption {
      note("The story stopped here: \(interruption.reason)")
      throw ExitCode.failure
    }
  }
}
