import ArgumentParser
import Foundation
import HTTP
import Operations
import Server

/// `clock ...`: whether the service believes the clock.
struct Clock: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Tells a service that doubts the clock that it is right.", subcommands: [Trust.self])
}

extension Clock {
  struct Trust: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "Says that this machine's clock is right.",
      discussion: """
        A service doubts a clock that was put ahead or back, or that is far from the newest time in the database. \
        While it does, nothing expires, for ten minutes at least. After this command every node on the database \
        trusts its clock within seconds if it agrees with this machine's within a minute, and doubts it if not.
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
