package import Delivery
import HTTPClient
import Logging
import Providers
package import Registrations
import SQL

extension UpstreamBouncer: Relay {
  package func move(
    _ registrations: [RegistrationReference]
  ) async throws -> Set<RegistrationReference> {
    try await links.moveUpstream(registrations)
  }

  /// Records which registrations the upstream bouncer knows, and which chat servers it refuses to send for.
  package func record(_ results: [DeliveryResult], of deliveries: [RegisteredPush]) async {
    var known: [Int64] = []
    var refused: Set<Int64> = []
    var sent: Set<Int64> = []
    for (result, delivery) in zip(results, deliveries) {
      guard case .upstream(let push) = delivery.push, let server = delivery.owner.chatServer else { continue }
      switch result {
      case .refused(.upstreamDisallows): refused.insert(server)
      case .delivered, .passedOn:
        sent.insert(server)
        if push.isNew(delivery.registration.id) { known.append(delivery.registration.id) }
      case .refused, .ended, .queued: break
      }
    }
    do {
      if !known.isEmpty { try await links.confirm(known) }
      for server in refused where try await links.recordRefusal(of: server) {
        let explanation = Reason.upstreamDisallows.explanation
        let name = try await links.hostname(of: server)
        logger.warning(
          "\(explanation.meaning)",
          metadata: [
            "server": "\(name ?? "\(server)")", "reason": "\(Reason.upstreamDisallows)",
            "advice": .stringConvertible(explanation.advice),
          ])
      }
      for server in sent { try await links.recordAccepted(for: server) }
    } catch {
      logger.error(
        "answers of the upstream bouncer could not be recorded",
        metadata: ["error": "\(DatabaseError.name(of: error))"])
    }
  }
}
