import Foundation
import NIOCore
import NIOFoundationCompat
import Providers
import Registrations
import Sealing

/// A push as the outbox keeps it: one sealed value with token, payload and all.
enum SealedPush {
  /// What is sealed, as JSON: it is read by the program that wrote it, or a later one.
  private enum Stored: Codable {
    case apns(
      token: String, topic: String, payload: Data, pushType: String, priority: Int?, expiration: Date?,
      collapseID: String?, id: UUID)
    case fcm(
      token: String, project: String?, data: [String: String], priority: String?, timeToLive: Int?,
      collapseKey: String?)
    case webPush(
      token: String, body: Data, urgency: String, timeToLive: Int?, collapseID: String?)
  }

  static func seal(_ push: Push, for registration: Int64, with key: StorageKey) throws
    -> [UInt8]
  {
    let stored: Stored
    switch push {
    case .apns(let push):
      stored = .apns(
        token: push.token, topic: push.topic, payload: Data(buffer: push.payload),
        pushType: push.pushType.rawValue,
        priority: push.priority, expiration: push.expiration, collapseID: push.collapseID, id: push.id)
    case .fcm(let push):
      stored = .fcm(
        token: push.token, project: push.project, data: push.data, priority: push.priority?.rawValue,
        timeToLive: push.timeToLive, collapseKey: push.collapseKey)
    case .webPush(let push):
      stored = .webPush(
        token: push.subscription.token, body: Data(buffer: push.body), urgency: push.urgency.rawValue,
        timeToLive: push.timeToLive, collapseID: push.collapseID)
    }
    return key.seal([UInt8](try JSONEncoder().encode(stored)), at: Outbox.place(of: registration))
  }

  /// nil if it was sealed under another key or for another registration, or is of a kind that this program does not
  /// know.
  static func open(_ sealed: [UInt8], for registration: Int64, with key: StorageKey)
    -> Push?
  {
    guard let plaintext = key.open(sealed, at: Outbox.place(of: registration)),
      let stored = try? JSONDecoder().decode(Stored.self, from: Data(plaintext))
    else { return nil }
    switch stored {
    case .apns(
      let token, let topic, let payload, let pushType, let priority, let expiration, let collapseID, let id):
      guard let pushType = APNsNotification.PushType(rawValue: pushType) else { return nil }
      return .apns(
        APNsNotification(
          token: token, topic: topic, payload: ByteBuffer(data: payload), pushType: pushType,
          priority: priority,
          expiration: expiration, collapseID: collapseID, id: id))
    case .fcm(let token, let project, let data, let priority, let timeToLive, let collapseKey):
      return .fcm(
        FCMMessage(
          token: token, project: project, data: data, priority: priority.flatMap(FCMMessage.Priority.init),
          timeToLive: timeToLive, collapseKey: collapseKey))
    case .webPush(let token, let body, let urgency, let timeToLive, let collapseID):
      guard let subscription = try? WebPushSubscription(token: token),
        let urgency = WebPushMessage.Urgency(rawValue: urgency)
      else { return nil }
      return .webPush(
        WebPushMessage(
          subscription: subscription, body: ByteBuffer(data: body), urgency: urgency, timeToLive: timeToLive,
          collapseID: collapseID))
    }
  }
}

extension Push {
  var token: String {
    switch self {
    case .apns(let notification): notification.token
    case .fcm(let message): message.token
    case .webPush(let message): message.subscription.token
    }
  }

  /// When it becomes worthless, by its own word; what it says in seconds counts from `start`.
  func expiration(from start: Date) -> Date? {
    switch self {
    case .apns(let notification): notification.expiration
    case .fcm(let message): message.timeToLive.map { start + TimeInterval($0) }
    case .webPush(let message): message.timeToLive.map { start + TimeInterval($0) }
    }
  }

  var collapseID: String? {
    switch self {
    case .apns(let notification): notification.collapseID
    case .fcm(let message): message.collapseKey
    case .webPush(let message): message.collapseID
    }
  }
}
