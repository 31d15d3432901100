import ArgumentParser
import Basics
import Foundation
import HTTP
import Logging
import NIOCore
import NIOPosix
import Operator
import Platform
import SQL
import Sealing
import Server

/// `serve`: runs the service.
struct Serve: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Runs the service until SIGTERM or SIGINT, then drains; SIGHUP reads the keys again.",
    discussion: """
      If systemd passes listening sockets (LISTEN_FDS), it uses those, so that a restart refuses no connection: the \
      ones named public and admin, or without names the first as public and the second as admin. Their addresses have \
      to be the configured ones. It tells systemd when it is ready, when it stops, and that it is alive \
      (NOTIFY_SOCKET, WATCHDOG_USEC).
      """)

  @OptionGroup var options: GlobalOptions
  @OptionGroup(title: "Configuration (every command takes these options)") var settings: SettingOptions

  @Option(help: .hidden) var clockOffset: String?

  func run() async throws {
    // Called before any key is read.
    let isHidden = ProcessMemory.hide()
    let sockets = try PassedSockets.fromEnvironment()
    let manager = try ServiceManager.fromEnvironment()
    let (configuration, warnings) = try options.read()
    guard let offset = clockOffset.map(Quantity.duration) ?? .zero else {
      throw ValidationError("--clock-offset must be a duration, like 25h")
    }
    bootstrapLogging(level: configuration.log.level, format: configuration.log.format)
    PrometheusRegistry.bootstrap()
    let logger = Logger(label: "push-bouncer")
    for warning in warnings { logger.warning("\(warning)") }
    if !isHidden {
      logger.warning("the system did not let this process hide its memory from other processes")
    }
    logger.notice(
      "push-bouncer \(Version.text)",
      metadata: [
        "configuration": "\(configuration.file ?? "none")", "keys": "\(configuration.keys.directory)",
      ])
    func metadata(_ settings: [(key: String, value: String)]) -> Logger.Metadata {
      Dictionary(
        settings.map { ($0.key, .stringConvertible($0.value)) }, uniquingKeysWith: { first, _ in first })
    }
    if !configuration.changed.isEmpty {
      logger.notice("settings that are not the defaults", metadata: metadata(configuration.changed))
    }
    logger.debug("all settings", metadata: metadata(configuration.effective))

    let descriptors = DescriptorLimit.raised()
    let visit = DatabaseVisit(configuration.database.url)
    for check in StartCheck.all(
      configuration, sockets: sockets, descriptors: descriptors, visit: visit)
    {
      let finding = try await check.pass()
      if finding.standing == .warning {
        logger.warning(
          "\(finding.detail)",
          metadata: finding.advice.map { ["check": "\(check.name)", "advice": "\($0)"] } ?? [:])
      }
    }
    await visit.close()
    // Makes exceeding a file size limit an error like a full disk; by default the signal ends the process.
    signal(SIGXFSZ, SIG_IGN)
    // Divided once: a request asks for the time more than ten times.
    let seconds = offset / .seconds(1)
    let service = try await BouncerService.build(
      configuration, time: ServiceTime(wall: { Date() + seconds }), sockets: sockets,
      manager: manager, descriptors: descriptors, logger: logger)
    try await service.run()
    logger.notice("stopped")
  }
}
