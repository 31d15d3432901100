internal import Foundation
package import Logging
package import Registrations
internal import SQL
internal import Sealing
internal import Timing

/// Tells the other nodes which bouncer keys this one has, so that none refuses for good what another
/// could open.
package struct KeyAnnouncer: Sendable {
  /// How often this node looks whether its keys have changed.
  private static let interval = Duration.seconds(5)

  private let folder: KeyFolder
  private let keys: BouncerKeys
  private let logger: Logger

  /// Tells of the keys in `folder`.
  package init(_ folder: KeyFolder, keys: BouncerKeys, logger: Logger) {
    self.folder = folder
    self.keys = keys
    self.logger = logger
  }

  /// Tells of them until its task is cancelled: at once when they change, and now and then.
  package func run() async {
    var told = Told()
    await every(Self.interval) {
      try await tell(&told)
    } onError: { error in
      logger.warning(
        "the bouncer keys could not be announced to other nodes",
        metadata: ["error": "\(DatabaseError.name(of: error))"])
    }
  }

  /// What the others have been told, and when.
  struct Told {
    var keys: Set<String> = []
    var time: ContinuousClock.Instant?
  }

  /// Tells what has changed, or all of it if the last time was long ago.
  func tell(_ told: inout Told) async throws {
    let current = Set(folder.current.bouncer.all.map(\.pair.publicKeyBase64))
    let isDue = told.time.map { .now - $0 > .seconds(BouncerKeys.interval) } ?? true
    guard isDue || current != told.keys else { return }
    try await keys.announce(current)
    try await keys.withdraw(told.keys.subtracting(current))
    told = Told(keys: current, time: .now)
  }
}
