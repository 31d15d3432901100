package import HTTP
import Hummingbird

/// A part of the service, described by what it contributes. Each wire makes its own; `Server` lists and runs them.
package struct Feature {
  /// Adds its routes to the public listener.
  package var routes: (Routes) -> Void = { _ in }
  /// Metrics that are read at each scrape.
  package var gauges: [PolledGauge] = []
  /// Background work that other features depend on. It ends after the features have closed.
  package var sharedBackgroundWork: [@Sendable () async -> Void] = []
  /// Releases its resources when all background work has ended.
  package var close: (@Sendable () async -> Void)?
  /// Background work that runs until the shutdown.
  package var work: [@Sendable () async -> Void] = []
  /// Called when the shutdown begins.
  package var drain: @Sendable () -> Void = {}
  /// What housekeeping removes.
  package var removals: [Removal] = []
  /// Queues in which a wrong clock may have postponed work too far.
  package var queues: [@Sendable (_ isTimeSetBack: Bool) async throws -> Void] = []

  /// Tables that the overview of `/admin` shows, each counted at most once a minute.
  package var tables: [@Sendable () async throws -> AdminTable] = []
  /// What the page of a chat server in `/admin` says, by the server's row id; nil for nothing.
  package var serverFacts: [@Sendable (_ server: Int64) async throws -> AdminFact?] = []

  package init() {}
}

/// A metric that is read at each scrape.
package struct PolledGauge: Sendable {
  /// A value, with its labels.
  package struct Sample: Sendable {
    package let labels: [(String, String)]
    package let value: Double

    package init(_ value: Double, labels: [(String, String)] = []) {
      self.value = value
      self.labels = labels
    }
  }

  package let name: String
  /// Reads the values.
  package let samples: @Sendable () async throws -> [Sample]

  package init(_ name: String, samples: @escaping @Sendable () async throws -> [Sample]) {
    self.name = name
    self.samples = samples
  }

  /// A gauge of one value, which nil leaves out.
  package static func single(_ name: String, _ value: @escaping @Sendable () async throws -> Double?)
    -> PolledGauge
  {
    PolledGauge(name) { try await value().map { [Sample($0)] } ?? [] }
  }
}

/// Removes the rows of one table that are no longer needed.
package struct Removal: Sendable {
  /// The log message if any rows were removed; nil for none.
  package let message: String?
  package let remove: @Sendable (_ limit: Int) async throws -> Int

  /// - Parameters:
  ///   - message: the log message if any rows were removed.
  ///   - remove: removes at most `limit` rows and returns how many; fewer than `limit` if none are left.
  package init(_ message: String? = nil, remove: @escaping @Sendable (_ limit: Int) async throws -> Int) {
    self.message = message
    self.remove = remove
  }
}
