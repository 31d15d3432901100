import NextcloudProxy
import NextcloudServer
package import Platform
import Registrations
import WebPushGateway
import ZulipBouncer
import ZulipServer

extension MetricDescription {
  /// The description of a metric; nil if it is not in ``all``.
  static func of(_ name: String) -> MetricDescription? { named[name] }

  private static let named = Dictionary(uniqueKeysWithValues: all.map { ($0.name, $0) })

  /// All metrics as a Markdown table.
  package static var table: String {
    all.sorted { $0.name < $1.name }.reduce(
      into: "| metric | kind | labels | what it says |\n|---|---|---|---|\n"
    ) {
      let labels = $1.labels.map { "`\($0)`" }.joined(separator: ", ")
      $0 += "| `\($1.name)` | \($1.kind.rawValue) | \(labels) | \($1.help) |\n"
    }
  }

  /// All metrics: those of the service, and those of each wire.
  package static let all: [MetricDescription] =
    service + UpstreamBouncer.metrics + ZulipServerRoutes.metrics + NextcloudProxyRoutes.metrics
    + RegistrationRoom.metrics + NextcloudServerRoutes.metrics + WebPushGateway.metrics
}

extension MetricDescription {
  private static let route = ["provider", "credential", "target"]

  private static let service: [MetricDescription] = [
    // Requests.
    .init(
      "push_bouncer_http_requests_total", .counter, labels: ["method", "path", "status"],
      "HTTP requests answered, by the path of the endpoint that served them."),
    .init(
      "push_bouncer_http_request_duration_seconds", .histogram, labels: ["path"],
      "Time from the head of an HTTP request to its answer."),
    .init(
      "push_bouncer_unknown_input_total", .counter, labels: ["path", "part"],
      "Unknown members, parameters and enumeration values in requests, which were ignored: their sender is newer than this program."
    ),
    .init(
      "push_bouncer_http_connections", .gauge, labels: ["listener"], "Open connections of clients."),
    .init(
      "push_bouncer_http_connections_closed_total", .counter, labels: ["listener", "reason"],
      "Connections of clients that the service closed before they were done, by reason."),
    .init(
      "push_bouncer_http_body_bytes", .gauge,
      "Memory of request bodies at present, in bytes; http.max_bytes_in_flight is the limit."),

    // Deliveries.
    .init(
      "push_bouncer_delivery_attempts_total", .counter, labels: ["provider", "outcome", "reason"],
      "Tries to send a notification to Apple, Google, a push service or the upstream bouncer, by outcome and reason. A notification may need several tries; one call to the upstream bouncer may carry several notifications."
    ),
    .init(
      "push_bouncer_notify_to_accepted_seconds", .histogram, labels: ["provider"], bounds: waits,
      "Time from the call that asked for a notification to its acceptance by the provider, including time in the outbox."
    ),
    .init(
      "push_bouncer_provider_request_duration_seconds", .histogram, labels: ["provider"],
      "Duration of a try, including the wait for a connection."),
    .init(
      "push_bouncer_provider_connections", .gauge, labels: ["provider"], "Open connections to the provider."),
    .init(
      "push_bouncer_tls_key_exchange_total", .counter, labels: ["leg", "group"],
      "TLS connections of each provider and listener by the group of their key exchange; X25519MLKEM768 also withstands quantum computers, and other stands for TLS 1.2 or any other group. Calls to other hosts (hostname proofs, other push proxies, the bouncer in server.bouncer) are not counted, because their HTTP client does not show the group."
    ),
    .init(
      "push_bouncer_provider_tokens_minted_total", .counter, labels: ["provider"],
      "Provider tokens signed for Apple and for push services, and access tokens requested from Google."),
    .init(
      "push_bouncer_route_up", .gauge, labels: route,
      "0 while a route fails (nothing but failures for some seconds) or its breaker is open, else 1. All of Web Push is one route, which fails where most push services do, or the operator's own."
    ),
    .init(
      "push_bouncer_breaker_open", .gauge, labels: route,
      "1 while the route's circuit breaker is open and only single probes are sent, else 0."),
    .init(
      "push_bouncer_route_doubted", .gauge, labels: route + ["kind"],
      "1 while the provider refuses so many tokens of a kind that it is not believed and none of their registrations ends."
    ),
    .init(
      "push_bouncer_held_deletions", .gauge, labels: route + ["kind"],
      "Registrations that the provider reports as dead and that are kept, because it reports too many at once; all of Web Push counts as one route."
    ),
    .init(
      "push_bouncer_webpush_hosts", .gauge, labels: ["state"],
      "Push services of Web Push that were used in the last quarter of an hour: working, failing."),
    .init(
      "push_bouncer_webpush_waiting", .gauge, "Notifications in the outbox that wait for a push service."),
    .init(
      "push_bouncer_deletion_verdicts_total", .counter, labels: ["provider", "verdict", "reason"],
      "Decisions about tokens that a provider reported as dead or refused: keep, end, hold or doubt_route."
    ),
    .init(
      "push_bouncer_late_answers_pending", .gauge,
      "Tries whose answer is still outstanding although the call that asked for them has been answered."),
    .init(
      "push_bouncer_notifications_invalid_total", .counter, labels: ["reason"],
      "Notifications that cannot be sent: malformed, too large, or for a damaged registration."
    ),

    // Outbox.
    .init(
      "push_bouncer_outbox_entries", .gauge, "Notifications in the outbox, which wait for their provider."),
    .init("push_bouncer_outbox_age_seconds", .gauge, "Age of the oldest notification in the outbox."),
    .init(
      "push_bouncer_outbox_late_seconds", .gauge,
      "Age of the oldest notification in the outbox, without those that wait because of a limit (bouncer.notifications_per_server, or their device's) and those of Web Push, whose push services may be gone for good; /readyz uses it."
    ),
    .init(
      "push_bouncer_outbox_expired_total", .counter, labels: ["provider"],
      "Notifications given up because they waited too long (delivery.max_age, or their own expiration)."),

    // Registrations.
    .init(
      "push_bouncer_registrations", .gauge, labels: ["kind", "provider", "state"],
      "Registrations of chat servers' phones, encrypted (e2ee) and legacy, counted every minute; an encrypted one that has ended counts as ended until it is removed. The provider fcm includes Web Push. Nextcloud's and the Web Push gateway's have metrics of their own."
    ),
    .init(
      "push_bouncer_registrations_ended_total", .counter, labels: ["kind", "reason"],
      "Registrations whose notification showed that the token is dead; others with that token end too, and are not counted."
    ),
    .init(
      "push_bouncer_sealed_values_not_opened", .gauge, labels: ["column"],
      "Values in the database that this storage.key did not open; 0 unless the key is wrong or the database damaged."
    ),

    // Service.
    .init(
      "push_bouncer_build_info", .gauge, labels: ["version", "commit"],
      "1, with the version and the commit as labels."),
    .init(
      "push_bouncer_clock_trusted", .gauge,
      "1 while the clock is trusted; 0 while it may be wrong and nothing expires."),
    .init(
      "push_bouncer_certificate_expiry_timestamp_seconds", .gauge,
      "When the listener's TLS certificate ends, in seconds since 1970."),
    .init(
      "push_bouncer_certificate_renewal_timestamp_seconds", .gauge,
      """
      When the listener's TLS certificate has to have been renewed, a quarter of its life and at most 14 days before its end; \
      in seconds since 1970.
      """),
    .init(
      "push_bouncer_key_reloads_total", .counter, labels: ["result"],
      "How often the key folder was read, and with what result."),
    .init(
      "push_bouncer_readiness", .gauge, labels: ["check"],
      "Checks of /readyz that no other metric shows, database and store (whether it is the one before): 0 ready, 1 degraded, 2 unavailable."
    ),
    .init("push_bouncer_key_problems", .gauge, "Files in the key folder that cannot be used."),
    .init(
      "push_bouncer_database_duration_seconds", .histogram, labels: ["operation"],
      "Time that a read, a write or a commit of the database took."),

    // Process.
    .init(
      "push_bouncer_log_lines_dropped_total", .counter,
      "Log lines that were dropped because standard error took no more, or refused them."),
    .init("process_cpu_seconds_total", .counter, "CPU time that the process has taken, of user and system."),
    .init("process_resident_memory_bytes", .gauge, "Memory of the process that is resident."),
    .init("process_open_fds", .gauge, "Open file descriptors of the process."),
    .init("process_max_fds", .gauge, "How many file descriptors the process may open."),
    .init("process_start_time_seconds", .gauge, "When the process started, in seconds since 1970."),
  ]

  /// In seconds, from a push that is sent at once to one that waits a day for its provider.
  private static let waits: [Double] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600, 21_600, 86_400,
  ]
}
