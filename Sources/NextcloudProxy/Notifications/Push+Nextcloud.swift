internal import Foundation
internal import NIOCore
internal import Providers

extension Push {
  /// A notification as its app expects it: both strings as they came, to be verified
  /// and decrypted on the phone.
  init(_ notification: NotificationBatch.Accepted, at now: Date) {
    let entry = notification.entry
    let destination = notification.device.destination
    switch destination.kind {
    case .fcm:
      self = .fcm(
        FCMMessage(
          token: notification.token, project: destination.target,
          data: ["subject": entry.subject, "signature": entry.signatureText],
          priority: entry.priority == .high ? .high : .normal,
          timeToLive: entry.kind == .voip ? Int(Self.ringing) : nil))
    case .apns, .pushKit:
      self = .apns(APNsNotification(notification, isPushKit: destination.kind == .pushKit, at: now))
    }
  }

  /// Seconds after which a call need not ring any more.
  fileprivate static let ringing: TimeInterval = 60
  /// Seconds after which the phone will have found out by itself what has been read elsewhere.
  fileprivate static let takingBack: TimeInterval = 86_400
}

extension APNsNotification {
  fileprivate init(_ notification: NotificationBatch.Accepted, isPushKit: Bool, at now: Date) {
    let entry = notification.entry
    let topic = notification.device.destination.target ?? ""
    // APNs knows tokens in lower case; Talk sends two, the second for calls.
    let tokens = notification.token.lowercased().split(separator: " ").map(String.init)
    let token = tokens.first ?? ""
    func make(_ aps: String, _ token: String, _ topic: String, _ type: PushType, _ priority: Int)
      -> APNsNotification
    {
      // Base64 needs no escaping.
      APNsNotification(
        token: token, topic: topic,
        payload: ByteBuffer(
          string: #"{"aps":\#(aps),"subject":"\#(entry.subject)","signature":"\#(entry.signatureText)"}"#),
        pushType: type, priority: priority)
    }
    switch entry.kind {
    case _ where isPushKit:
      self = make("{}", token, topic + ".voip", .voip, 10)
      expiration = now + Push.ringing
    case .voip where tokens.count > 1:
      self = make("{}", tokens[1], topic + ".voip", .voip, 10)
      expiration = now + Push.ringing
    case .alert, .voip:
      self = make(
        #"{"alert":{"loc-key":"NEW_NOTIFICATION"},"mutable-content":1,"sound":"default"}"#, token, topic,
        .alert, entry.priority == .high ? 10 : 5)
      if entry.kind == .voip { expiration = now + Push.ringing }
      collapseID = String(entry.signatureText.prefix(Self.collapseCharacters))
    case .background:
      self = make(#"{"content-available":1}"#, token, topic, .background, 5)
      expiration = now + Push.takingBack
      collapseID = String(entry.signatureText.prefix(Self.collapseCharacters))
    }
  }

  /// Of a signature: it tells one notification from another, so that the same one sent twice shows once and
  /// no other one is lost. What they say, the proxy cannot see.
  private static let collapseCharacters = 43
}
