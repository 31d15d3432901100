import Basics
import Delivery
import Foundation
import Logging
import Providers
import Registrations
package import Sealing

/// Results of a request's notifications.
package struct NotifyReceipt: Sendable {
  /// Number accepted by APNs.
  package let apple: Int
  /// Number accepted by FCM and push services.
  package let android: Int
  /// Ids that the server should delete: first the unknown ones, then those that APNs, then those that FCM or
  /// a push service has declared dead.
  package let gone: [TokenID]

  package init(apple: Int, android: Int, gone: [TokenID]) {
    self.apple = apple
    self.android = android
    self.gone = gone
  }
}

/// The items of a request, matched with their registrations.
struct NotifyBatch {
  private(set) var deliveries: [RegisteredPush] = []
  /// The token of each delivery, in the same order.
  private var targets: [(tokenID: TokenID, kind: PushToken.Kind)] = []
  /// Ids without a live registration of the item's kind, each once.
  private(set) var unknown: [TokenID] = []
  /// Whether it may be a test of devices that are all known.
  var isTest: Bool { mayBeTest && unknown.isEmpty && !deliveries.isEmpty }
  private let mayBeTest: Bool

  /// - Parameters:
  ///   - lookup: registrations whose token does not open are neither sent to nor reported as unknown.
  ///   - owner: the chat server.
  init(
    _ notification: NotifyRequest, _ lookup: RegistrationStore.Lookup, realm: UUID, of owner: Owner,
    logger: Logger
  ) {
    mayBeTest = notification.items.allSatisfy(\.mayBeTest)
    var seen: Set<TokenID> = []
    var faults = notification.faults
    defer { faults.report(to: logger) }
    for item in notification.items {
      guard !lookup.unreadable.contains(item.tokenID) else {
        faults.add(.unreadable)
        continue
      }
      do throws(ItemFault) {
        let push: Push
        let reference: RegistrationReference
        if let registration = lookup.elsewhere[item.tokenID] {
          push = try item.passedOn(
            for: registration, realm, with: notification.more, isNew: lookup.new.contains(item.tokenID))
          reference = registration
        } else if let registration = lookup.found[item.tokenID], registration.token.kind == item.kind {
          guard let local = try item.push(for: registration) else {
            logger.error(
              "registration without app id", metadata: ["token": "\(registration.token.fingerprint)"])
            continue
          }
          push = local
          reference = registration.reference
        } else {
          if seen.insert(item.tokenID).inserted { unknown.append(item.tokenID) }
          continue
        }
        deliveries.append(
          RegisteredPush(
            push: push, registration: reference, owner: owner, isBackground: item.isBackground))
        targets.append((item.tokenID, item.kind))
      } catch {
        faults.add(error)
      }
    }
  }

  /// Sums up the results of the deliveries.
  ///
  /// - Parameter forgetsUnknown: whether the server is to delete the unknown ids.
  func receipt(_ results: [DeliveryResult], forgetsUnknown: Bool) -> NotifyReceipt {
    func delivered(_ kind: PushToken.Kind) -> Int {
      zip(targets, results).count { $0.kind == kind && $1 == .delivered }
    }
    func ended(_ kind: PushToken.Kind) -> [TokenID] {
      zip(targets, results).compactMap { target, result in
        guard target.kind == kind, case .ended = result else { return nil }
        return target.tokenID
      }
    }
    var seen: Set<TokenID> = []
    return NotifyReceipt(
      apple: delivered(.apns), android: delivered(.fcm),
      gone: ((forgetsUnknown ? unknown : []) + ended(.apns) + ended(.fcm)).filter { seen.insert($0).inserted }
    )
  }
}
