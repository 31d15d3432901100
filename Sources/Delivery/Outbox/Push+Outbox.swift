import Foundation
import Providers

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
