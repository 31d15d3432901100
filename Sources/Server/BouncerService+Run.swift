import Foundation
import Operations
import ServiceLifecycle
import UnixSignals

extension BouncerService {
  /// Runs until SIGTERM or SIGINT, then drains.
  package func run() async throws {
    let group = ServiceGroup(
      configuration: .init(services: services, gracefulShutdownSignals: [.sigterm, .sigint], logger: logger))
    try await withThrowingTaskGroup(of: Void.self) { tasks in
      tasks.addTask { await obeySignals() }
      try await group.run()
      tasks.cancelAll()
    }
  }

  /// Closes what was opened when it was built, for a service that is never run.
  package func close() async {
    for case let resource as Closing in services.reversed() { await resource.close() }
  }

  /// SIGHUP reads the keys and the certificate again; the second SIGTERM or SIGINT ends the process at once. Not a part of
  /// the service group, which would end it with the first.
  private func obeySignals() async {
    var isStopping = false
    for await signal in await UnixSignalsSequence(trapping: .sighup, .sigterm, .sigint) {
      if signal == .sighup {
        keyFolder.reload()
        certificate?.reload()
      } else if isStopping {
        _exit(1)
      } else {
        isStopping = true
      }
    }
  }
}
