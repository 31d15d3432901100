package import Delivery
internal import Foundation
internal import HTTP
internal import Providers
internal import Registrations

/// The latest accepted notifications of the devices that a text names, for whoever tries whether and how fast a phone is
/// reached.
package struct DeliveryReport: Sendable {
  private let search: DeviceSearch
  private let recent: RecentDeliveries

  /// - Parameter recent: those of this process.
  package init(search: DeviceSearch, recent: RecentDeliveries) {
    self.search = search
    self.recent = recent
  }

  /// - Parameter text: as in a search for devices.
  func json(_ text: String) async throws -> JSON {
    let query: DeviceQuery
    do { query = try DeviceQuery(text) } catch { throw APIError(error.description) }
    let devices = Set(try await search.find(query).devices.map(\.id))
    return ["deliveries": .array(recent.deliveries(to: devices).map(\.json))]
  }
}

extension AcceptedDelivery {
  fileprivate var json: JSON {
    func milliseconds(_ seconds: TimeInterval) -> JSON { .number(String((seconds * 10_000).rounded() / 10)) }
    return [
      "device": .string("\(registration.wire):\(registration.id)"),
      "provider": .string(provider.rawValue),
      "taken_at": .string(takenAt.formatted(Date.ISO8601FormatStyle(includingFractionalSeconds: true))),
      "request_ms": request.map(milliseconds) ?? .null, "queue_ms": milliseconds(queue),
      "provider_ms": milliseconds(answer),
    ]
  }
}
