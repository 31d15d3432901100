import ArgumentParser
import Foundation
import Logging
import Operations
import ServiceLifecycle
import UnixSignals

/// `serve`: the service itself.
struct Serve: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Runs the service until SIGTERM or SIGINT, then drains; SIGHUP reads the keys again.")

  @OptionGroup var options: GlobalOptions

  @Option(help: .hidden) var clockOffset: String?

  func run() async throws {
    let configuration = try options.load()
    bootstrapLogging(level: configuration.log.level, format: configuration.log.format)
    PrometheusRegistry.bootstrap()
    let logger = Logger(label: "push-bouncer")
    logger.notice(
      "configuration",
      metadata: Dictionary(
        configuration.effective.map { ($0.key, .string($0.value)) }, uniquingKeysWith: { first, _ in first }))

    guard let offset = clockOffset.map(Configuration.duration) ?? .zero else {
      throw ValidationError("--clock-offset wants a duration, like 25h")
    }
    let service = try await BouncerService.build(configuration, clockOffset: offset, logger: logger)
    let group = ServiceGroup(
      configuration: .init(
        services: service.services + [SignalHandler(keyFolder: service.keyFolder, logger: logger)],
        gracefulShutdownSignals: [.sigterm, .sigint], logger: logger))
    try await group.run()
    logger.notice("stopped")
  }
}

/// SIGHUP reads the keys again; the second SIGTERM or SIGINT ends the process at once.
private struct SignalHandler: Service {
  let keyFolder: KeyFolder
  let logger: Logger

  func run() async throws {
    let signals = await UnixSignalsSequence(trapping: .sighup, .sigterm, .sigint)
    var isStopping = false
    for await signal in signals.cancelOnGracefulShutdown() {
      switch signal {
      case .sighup:
        keyFolder.reload()
      default:
        if isStopping { _exit(1) }
        isStopping = true
      }
    }
  }
}
