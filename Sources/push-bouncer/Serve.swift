import ArgumentParser
import AsyncHTTPClient
import Foundation
import HTTP
import Logging
import NIOCore
import NIOPosix
import Operations
import Providers
import Sealing
import Server

/// `serve`: the service itself.
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
    // Before any key is read.
    let isHidden = ProcessMemory.hide()
    let (sockets, manager) = (try PassedSockets.take(), try ServiceManager.take())
    let (configuration, warnings) = try options.read()
    guard let offset = clockOffset.map(Configuration.duration) ?? .zero else {
      throw ValidationError("--clock-offset wants a duration, like 25h")
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
      Dictionary(settings.map { ($0.key, .string($0.value)) }, uniquingKeysWith: { first, _ in first })
    }
    if !configuration.changed.isEmpty {
      logger.notice("settings that are not the defaults", metadata: metadata(configuration.changed))
    }
    logger.debug("all settings", metadata: metadata(configuration.effective))

    let descriptors = DescriptorLimit.raised()
    // Before anything uses them, as the checks do.
    NIOSingletons.groupLoopCountSuggestion = min(descriptors.eventLoops, System.coreCount)
    let visit = DatabaseVisit(configuration.database.url)
    for check in StartCheck.all(
      configuration, sockets: sockets, descriptors: descriptors, visit: visit)
    {
      try await check.pass()
    }
    await visit.end()
    if let expiry = configuration.http.tls?.expiry(now: Date()) { logger.error("\(expiry)") }
    if let shortage = descriptors.shortage(configuration.http.maxConnections) {
      logger.warning("\(shortage)")
    }
    // A limit on the size of files is like a full disk: an error, and not the end of the process.
    signal(SIGXFSZ, SIG_IGN)
    let service = try await BouncerService.build(
      configuration, time: ServiceTime(wall: { Date() + offset / .seconds(1) }), sockets: sockets,
      manager: manager, descriptors: descriptors, logger: logger)
    try await service.run()
    logger.notice("stopped")
  }
}

/// The service that runs with a configuration, if one does.
enum RunningService {
  /// Asks it on the operator's listener. Where none answers, systemd is asked whether it holds the package's socket.
  static func find(_ configuration: Configuration) async -> StartCheck.Service {
    if let health = await health(configuration) {
      return .init(isServing: true, heldAddress: health["held"]?.string)
    }
    let isPackaged = configuration.file?.hasPrefix("\(Configuration.systemFolder)/") == true
    return .init(isServing: false, heldAddress: isPackaged ? heldBySystemd() : nil)
  }

  private static func health(_ configuration: Configuration) async -> JSON? {
    let (host, port) = (configuration.admin.host, configuration.admin.port)
    var settings = HTTPClient.Configuration()
    settings.guardConnections()
    settings.connectionPool.retryConnectionEstablishment = false
    let client = HTTPClient(eventLoopGroupProvider: .singleton, configuration: settings)
    let url = "http://\(host.contains(":") ? "[\(host)]" : host):\(port)/healthz"
    let answer = try? await client.execute(HTTPClientRequest(url: url), timeout: .seconds(2))
    let body = try? await answer?.body.collect(upTo: 1024)
    try? await client.shutdown()
    let health = body.flatMap { try? JSON.parse(Array($0.readableBytesView)) }
    return health?["status"]?.string == "ok" ? health : nil
  }

  private static func heldBySystemd() -> String? {
    let (systemctl, output) = (Process(), Pipe())
    systemctl.executableURL = URL(filePath: "/usr/bin/systemctl")
    // Root's may be closed to the service's user, which this is by now.
    systemctl.currentDirectoryURL = URL(filePath: "/")
    systemctl.arguments = ["show", "push-bouncer.socket", "--property=ActiveState,Listen"]
    (systemctl.standardOutput, systemctl.standardError) = (output, FileHandle.nullDevice)
    guard (try? systemctl.run()) != nil, let shown = try? output.fileHandleForReading.readToEnd() else {
      return nil
    }
    let lines = String(decoding: shown, as: UTF8.self).split(separator: "\n")
    guard lines.contains("ActiveState=active") else { return nil }
    // Listen=127.0.0.1:8080 (Stream)
    return lines.first { $0.hasPrefix("Listen=") }?.dropFirst(7).split(separator: " ").first.map(String.init)
  }
}
