import Delivery
import Foundation
import HTTP
import Logging
import NIOCore
import Providers
import Registrations
import Sealing

/// A notification in clear with the devices it goes to.
struct LegacyBatch {
  private(set) var deliveries: [RegisteredPush] = []

  /// - Parameter owner: the chat server.
  /// - Throws: the 400 that the options for FCM deserve, if there is a device that they would be used for and
  ///   none beside it that can be sent to.
  init(
    _ notification: LegacyNotification, to registrations: [LegacyRegistration], of owner: Owner, now: Date,
    logger: Logger
  ) throws(APIError) {
    // What all of them get is made once.
    let apple = registrations.filter { $0.token.kind == .apns }
    if notification.hasAPNs, !apple.isEmpty {
      let payload = notification.apnsPayload
      for registration in apple {
        guard let push = notification.apnsPush(for: registration, payload: payload, now: now) else {
          logger.error("registration without app id", metadata: ["legacy_registration": "\(registration.id)"])
          continue
        }
        deliveries.append(RegisteredPush(push: push, registration: registration.reference, owner: owner))
      }
    }
    let android = registrations.filter { $0.token.kind == .fcm }
    guard notification.hasFCM, !android.isEmpty else { return }
    var faults = ItemFaults()
    defer { faults.report(to: logger) }
    do {
      let (data, priority) = (notification.fcmData, try notification.fcmPriority())
      lazy var body = ByteBuffer(bytes: JSON(data).bytes)
      for registration in android {
        do throws(ItemFault) {
          let push = try Push(toAndroid: registration.token, data: data, body: body, priority: priority)
          deliveries.append(RegisteredPush(push: push, registration: registration.reference, owner: owner))
        } catch {
          faults.add(error)
        }
      }
    } catch {
      guard !deliveries.isEmpty else { throw error }
      faults.add(.malformed(error))
    }
  }
}

extension JSON {
  /// An object of texts, always in the same order.
  fileprivate init(_ texts: [String: String]) {
    self = .object(Object(texts.sorted { $0.key < $1.key }.map { .init($0.key, .string($0.value)) }))
  }
}
