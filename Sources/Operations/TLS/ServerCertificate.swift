package import Foundation
package import Logging
package import NIOSSL
internal import Synchronization
internal import Timing

/// The certificate of the public listener. It is taken up again when its files change, for the connections that come
/// from then on; those that are open go on with what they began with. A pair that cannot be used, as one of which only
/// the first file has been replaced, leaves in force what was there.
package final class ServerCertificate: Sendable {
  private struct State {
    var signature: [FileAttributes?]
    var context: NIOSSLContext
    var end: Date
    var problem: String?
  }

  /// How often the files are looked at.
  private static let interval = Duration.seconds(2)

  private let files: Configuration.TLS
  private let logger: Logger
  private let state: Mutex<State>
  /// One reload at a time, so that an older one never overwrites a newer.
  private let reloading = Mutex(())

  /// - Throws: ``Fault`` that names the key to mend.
  package init(_ files: Configuration.TLS, logger: Logger) throws(Fault) {
    self.files = files
    self.logger = logger
    let signature = Self.signature(of: files)
    state = Mutex(State(signature: signature, context: try files.serverContext(), end: try files.end()))
  }

  /// Returns what the next connection begins with.
  package var forNewConnections: @Sendable () -> NIOSSLContext { { self.context } }

  /// What the next connection begins with.
  package var context: NIOSSLContext { state.withLock { $0.context } }

  /// When the one in use ends.
  package var end: Date { state.withLock { $0.end } }

  /// What is wrong with the files as they are now.
  package var problem: String? { state.withLock { $0.problem } }

  /// Takes up what has changed.
  package func reload() {
    reloading.withLock { _ in
      let signature = Self.signature(of: files)
      let before = state.withLock { $0 }
      // What is broken is tried again even so: not every reason for it is in the files.
      guard signature != before.signature || before.problem != nil else { return }
      do {
        let context = try files.serverContext()
        let end = try files.end()
        state.withLock { $0 = State(signature: signature, context: context, end: end) }
        logger.notice("certificate taken up", metadata: ["file": "\(files.certificateFile)"])
      } catch {
        let problem = "\(error)"
        state.withLock { state in
          state.signature = signature
          state.problem = problem
        }
        guard problem != before.problem else { return }
        logger.error(
          "certificate cannot be used, the one before stays in use",
          metadata: [
            "problem": "\(problem)",
            "advice": "put a certificate and its key there; they are taken up by themselves",
          ])
      }
    }
  }

  private static func signature(of files: Configuration.TLS) -> [FileAttributes?] {
    [files.certificateFile, files.keyFile].map { FileAttributes(of: URL(fileURLWithPath: $0)) }
  }

  /// Looks at the files every two seconds, until its task is cancelled.
  package func run() async {
    await every(Self.interval) { reload() }
  }
}
