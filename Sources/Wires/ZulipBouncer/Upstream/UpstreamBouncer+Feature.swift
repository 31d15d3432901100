import Foundation
package import Platform
import SQL

extension UpstreamBouncer {
  /// The descriptions of its metrics.
  package static let metrics: [MetricDescription] = [
    .init(
      "push_bouncer_upstream_unregistrations_pending", .gauge,
      "Old apps' tokens that are no longer used and not yet unregistered at the upstream bouncer.")
  ]

  /// The work of passing on reports and unregistrations.
  package var feature: Feature {
    var feature = Feature()
    feature.gauges = [
      .single("push_bouncer_upstream_unregistrations_pending") {
        Double(try await links.unregistrations.count())
      }
    ]
    feature.work = [{ await run() }]
    feature.queues = [links.reports.bringForward, links.unregistrations.bringForward]
    return feature
  }
}

extension UpstreamLinks {
  /// The links of chat servers in `/admin`, even if `upstream.url` has been removed since.
  ///
  /// - Parameter host: the upstream bouncer's host, with its port unless that is 443; nil for none.
  package func feature(at host: String?) -> Feature {
    var feature = Feature()
    feature.serverFacts = [
      { server in try await UpstreamReport(of: server, self, at: host)?.fact(at: now()) }
    ]
    return feature
  }
}
