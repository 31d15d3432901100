import ArgumentParser
import Foundation
import Operations
import Server
import Wire

/// `clock ...`: what the service takes for now.
struct Clock: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Vouches for the clock, where the service doubts it.", subcommands: [Trust.self])
}

extension Clock {
  struct Trust: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "Says that this machine's clock is right.",
      discussion: """
        A service that finds its clock put ahead or back, or far from the newest time in the database, lets nothing \
        expire until it has been steady for ten minutes. With this every node whose clock agrees with this \
        machine's within a minute trusts it within seconds; one whose clock does not agree doubts it.
        """)

    @OptionGroup var options: GlobalOptions
    @Option(help: .hidden) var clockOffset: String?

    func run() async throws {
      guard let offset = clockOffset.map(Configuration.duration) ?? .zero else {
        throw ValidationError("--clock-offset wants a duration, like 25h")
      }
      let now = Date() + offset / .seconds(1)
      _ = try await Store.with(options) { try await ClockRecord(database: $0.database).write(now) }
      options.show(["time": timestamp(now)], "it is \(now.formatted(.iso8601)) from now on")
    }
  }
}
