package import Delivery
import Foundation
package import HTTP
import Providers
import Registrations

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
    return ["deliveries": AcceptedDelivery.members.list(recent.deliveries(to: devices))]
  }
}

extension AcceptedDelivery {
  package static var members: [JSONMember<AcceptedDelivery>] {
    func milliseconds(_ seconds: TimeInterval) -> JSON { .number(String((seconds * 10_000).rounded() / 10)) }
    return [
      .member("device", "as `devices[].name` of `device list`") {
        "\($0.registration.wire):\($0.registration.id)"
      },
      .member("provider", .oneOf(Route.Provider.self)) { .string($0.provider.rawValue) },
      .member("taken_at", .time, "when the chat server's request came; with milliseconds") {
        .string($0.takenAt.formatted(Date.ISO8601FormatStyle(includingFractionalSeconds: true)))
      },
      .member(
        "request_ms", .orNull(.number), "the request until delivery began; null if it came from the outbox"
      ) { $0.request.map(milliseconds) ?? .null },
      .member("queue_ms", .number, "the wait for a connection") { milliseconds($0.queue) },
      .member("provider_ms", .number, "the provider's time") { milliseconds($0.answer) },
    ]
  }
}
