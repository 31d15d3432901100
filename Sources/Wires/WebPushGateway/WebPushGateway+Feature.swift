import Foundation
package import Platform
import Providers
import Registrations
import Sealing

extension WebPushGateway {
  /// The descriptions of its metrics.
  package static let metrics: [MetricDescription] = [
    .init(
      "push_bouncer_webpush_gateway_subscriptions", .gauge, labels: ["token_kind", "app"],
      "Subscriptions to the Web Push gateway."),
    .init(
      "push_bouncer_webpush_gateway_subscriptions_failing", .gauge, labels: ["token_kind", "app"],
      "Subscriptions to the Web Push gateway whose last message was refused."),
    .init(
      "push_bouncer_webpush_gateway_messages", .gauge,
      "Bodies that did not fit into a push and wait at the Web Push gateway for their apps."),
  ]

  /// The gateway that Web Push senders and apps call.
  package var feature: Feature {
    func gauge(_ name: String, _ value: @escaping @Sendable (GatewaySubscriptions.Count) -> Int64)
      -> PolledGauge
    {
      PolledGauge(name) { [subscriptions] in
        try await subscriptions.counts().map {
          .init(Double(value($0)), labels: [("token_kind", $0.kind.rawValue), ("app", $0.app)])
        }
      }
    }
    var feature = Feature()
    feature.routes = { [self] in GatewayRoutes(self).addRoutes(to: $0) }
    feature.gauges = [
      gauge("push_bouncer_webpush_gateway_subscriptions", \.subscriptions),
      gauge("push_bouncer_webpush_gateway_subscriptions_failing", \.failing),
      .single("push_bouncer_webpush_gateway_messages") { [messages] in Double(try await messages.count()) },
    ]
    feature.tables = [
      { [subscriptions] in
        AdminTable(
          "Web Push gateway by app",
          [.text("App"), .text("Tokens"), .number("Subscriptions"), .failures("Failing")],
          otherwise: "No subscription yet.",
          rows: try await subscriptions.counts().map {
            [
              .text($0.app.isEmpty ? "default project" : $0.app), .text($0.kind.rawValue),
              .number($0.subscriptions), .number($0.failing),
            ]
          })
      }
    ]
    return feature
  }
}

extension GatewaySettings {
  /// Cleans up, even if the gateway has been switched off since.
  package func cleanup(_ gateway: WebPushGateway) -> Feature {
    var feature = Feature()
    feature.removals = [
      Removal("unused subscriptions to the Web Push gateway removed") { [retention] in
        let now = gateway.now()
        return try await gateway.subscriptions.removeUnused(
          since: now - retention, neverUsedSince: now - min(retention, RegistrationRoom.trial), limit: $0)
      },
      Removal { try await gateway.messages.removeExpired(limit: $0) },
    ]
    return feature
  }

  /// The checks made before the start.
  ///
  /// - Parameter publicURL: `http.public_url`.
  package func checks(publicURL: String?) -> [StartCheck] {
    guard isEnabled else { return [] }
    return [
      StartCheck("webpush gateway") {
        guard let publicURL, publicURL.hasPrefix("https://") else {
          return .warning(
            $0,
            "endpoints begin with http.public_url, which is \(publicURL ?? "not set"): senders need https://",
            advice: "set http.public_url to the address by which senders reach this service")
        }
        return .good($0, "endpoints begin with \(publicURL)\(GatewayRoutes.pushPath)")
      }
    ]
  }
}
