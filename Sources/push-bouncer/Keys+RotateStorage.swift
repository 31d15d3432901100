import ArgumentParser
import Foundation
import HTTP
import Operations
import Registrations
import Server

extension Keys {
  struct RotateStorage: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      abstract:
        "Replaces storage.key by a new key and seals everything anew, while the service runs.",
      discussion: """
        The file holds the new key and the old one until everything is sealed under the new one; then the old one is \
        removed. The command may be stopped at any moment; start it again, and it goes on where it was. The key that \
        hashes are made with does not change. Back the file up afterwards.
        """)

    @OptionGroup var options: GlobalOptions
    @Option(help: .hidden) var silence = 60
    @Option(help: .hidden) var writes = 30

    func run() async throws {
      let configuration = try options.load()
      let count = try await Store.with(options, configuration) { store in
        var patience = StorageKeyRotation.Patience()
        patience.silence = .seconds(silence)
        patience.writes = .seconds(writes)
        return try await StorageKeyRotation(
          directory: configuration.keys.directory, database: store.database, storageKey: store.storageKey,
          lease: MaintenanceLease("rotate-storage", database: store.database, now: store.now),
          patience: patience
        ) { sentence in
          FileHandle.standardError.write(Data("\(sentence)\n".utf8))
        }.run()
      }
      let rest =
        count.unreadable == 0
        ? "" : "; \(count.unreadable) values do not open under any key and were left as they are"
      options.show(
        ["resealed": .integer(Int64(count.resealed)), "unreadable": .integer(Int64(count.unreadable))],
        """
        everything is sealed under a new storage.key: \(count.resealed) values\(rest). Back the file up, and copy it to \
        machines that have a Keys folder of their own
        """)
    }
  }
}
