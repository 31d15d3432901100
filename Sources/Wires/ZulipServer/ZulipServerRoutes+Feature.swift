package import Logging
package import Platform
import SQL

extension ZulipServerRoutes {
  /// The descriptions of its metrics.
  package static let metrics: [MetricDescription] = [
    .init(
      "push_bouncer_server_event_waiters", .gauge,
      "Apps of the built-in chat-server side that wait for events now."),
    .init(
      "push_bouncer_server_device_registrations_pending", .gauge,
      "Devices of the built-in chat-server side that its bouncer has not registered yet."),
    .init(
      "push_bouncer_server_legacy_unregistrations_pending", .gauge,
      "Old tokens of the built-in chat-server side that its bouncer has not removed yet."),
  ]

  /// The built-in chat-server side.
  ///
  /// - Parameter bouncer: the bouncer with which it registers devices; nil for none.
  package func feature(_ bouncer: BouncerLink?, logger: Logger) -> Feature {
    var feature = Feature()
    feature.routes = { addRoutes(to: $0) }
    feature.gauges = [
      .single("push_bouncer_server_event_waiters") { Double(eventNotifier.waiters) },
      .single("push_bouncer_server_device_registrations_pending") { Double(try await devices.jobs.count()) },
      .single("push_bouncer_server_legacy_unregistrations_pending") {
        Double(try await devices.legacyTokens.jobs.count())
      },
    ]
    feature.work = [{ await eventNotifier.watch(devices, logger: logger) }]
    if let bouncer { feature.work.append { await bouncer.run() } }
    feature.drain = { eventNotifier.close() }
    feature.removals = [Removal { try await devices.removeOldEvents(limit: $0) }]
    feature.queues = [devices.jobs.bringForward, devices.legacyTokens.jobs.bringForward]
    return feature
  }
}
