internal import Foundation
package import Platform
internal import SQL

extension UpstreamBouncer {
  /// What its metrics say.
  package static let metrics: [MetricDescription] = [
    .init(
      "push_bouncer_upstream_unregistrations_pending", .gauge,
      "Old apps' tokens that are no longer used, of which the upstream bouncer has not been told yet.")
  ]

  /// What is passed on to the upstream bouncer later.
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
  /// - Parameter host: where the upstream bouncer is; nil for none.
  package func feature(at host: String?) -> Feature {
    var feature = Feature()
    feature.serverFacts = [
      { server in try await UpstreamReport(of: server, self, at: host)?.fact(at: now()) }
    ]
    return feature
  }
}
