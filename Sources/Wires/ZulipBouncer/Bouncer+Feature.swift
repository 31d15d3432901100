import Foundation
package import Logging
package import Platform
import Registrations
import SQL

extension Bouncer {
  /// The bouncer that other chat servers call.
  package func feature(logger: Logger) -> Feature {
    var feature = Feature()
    feature.routes = { ZulipBouncerRoutes(self).addRoutes(to: $0) }
    feature.work = [
      {
        await requestTimes.run { error in
          logger.warning(
            "times of requests could not be written", metadata: ["error": "\(DatabaseError.name(of: error))"])
        }
      }
    ]
    let reports = Reports(database: database, isRemovable: UpstreamLinks.isAccepted)
    feature.removals = [
      Removal { try await reports.remove(before: now() - settings.reportRetention, limit: $0) }
    ]
    return feature
  }
}
