internal import Foundation
internal import SQL

extension MigrationStatus {
  /// The devices of all servers together at the end of each of the last days, from what was written down; from the
  /// first day on which there is anything. Reads the history alone, no registration.
  package func progress(days: Int64) async throws -> [Day] {
    let statement = Statement(
      """
      SELECT day, CAST(SUM(legacy - legacy_before) AS BIGINT), CAST(SUM(e2ee - e2ee_before) AS BIGINT)
      FROM (
        SELECT day, legacy, e2ee, COALESCE(LAG(legacy) OVER place, 0) AS legacy_before,
          COALESCE(LAG(e2ee) OVER place, 0) AS e2ee_before
        FROM migration_history WINDOW place AS (PARTITION BY server_id, realm_id ORDER BY day)) AS changes
      GROUP BY day ORDER BY day
      """)
    let changes = try await database.query(statement).map { row in
      (day: try row.int64(0), devices: Devices(legacy: try row.int64(1), e2ee: try row.int64(2)))
    }
    guard let first = changes.first?.day else { return [] }
    var (sum, rest) = (Devices(), changes[...])
    return (first...max(first, today)).compactMap { day in
      while let change = rest.first, change.day <= day {
        sum += change.devices
        rest = rest.dropFirst()
      }
      return day > today - days
        ? Day(date: Date(timeIntervalSince1970: Double(day) * 86_400), devices: sum) : nil
    }
  }
}
