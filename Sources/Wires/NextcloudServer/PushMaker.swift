import HTTP
import NextcloudProxy
import Sealing

/// Makes the pushes of a message: selects the phones, encrypts for each phone and signs for the user
/// (`Documentation/Protocols/Nextcloud.md` 6.2 to 6.4).
struct PushMaker: Sendable {
  let padding: RSAPadding
  let userKey: RSAPrivateKey

  /// The pushes of a message.
  struct Result: Sendable {
    var pushes: [NextcloudPush] = []
    /// Number of phones that get a push.
    var devices = 0
    /// Phones whose key is invalid, to which nothing can ever be sent.
    var broken: [NextcloudRegistration] = []
  }

  /// Makes the pushes of a message to these phones of a user.
  ///
  /// - Parameters:
  ///   - apps: the apps of deleted notifications, as far as they are known.
  ///   - appPasswords: the app passwords of the phones that get none.
  func pushes(
    of message: NextcloudMessage, apps: [Int64: String], to phones: [NextcloudRegistration],
    except appPasswords: Set<Int64> = []
  ) async -> Result {
    let hasTalk = phones.contains { $0.description.appKind == .talk }
    var result = Result()
    for phone in phones where !appPasswords.contains(phone.description.appPassword) {
      let contents = Self.contents(of: message, apps: apps, for: phone.description.appKind, hasTalk: hasTalk)
      guard !contents.isEmpty else { continue }
      guard let key = try? RSAPublicKey(pem: phone.description.deviceKey),
        let pushes = try? contents.map({ try push($0, to: phone, key: key) })
      else {
        result.broken.append(phone)
        continue
      }
      result.devices += 1
      result.pushes += pushes
      // Each signature takes about a millisecond, so other tasks get a turn in between.
      await Task.yield()
    }
    return result
  }

  /// The content of one push.
  enum Content: Sendable, Hashable {
    case notification(NextcloudNotification)
    /// The plaintext of a deletion.
    case deletion([UInt8])
  }

  /// The contents for one phone. The Talk app gets Talk's notifications; other apps get all others and, if
  /// the user has no Talk app, Talk's too. A deletion of all goes to every app.
  static func contents(
    of message: NextcloudMessage, apps: [Int64: String], for kind: NextcloudApp.Kind,
    hasTalk: Bool
  ) -> [Content] {
    let isTalk = kind == .talk
    func concerns(_ app: String) -> Bool { PushUrgency.isTalk(app) ? isTalk || !hasTalk : !isTalk }
    switch message {
    case .notification(let notification):
      return concerns(notification.app) ? [.notification(notification)] : []
    case .deletion(let nids, let app):
      var together: [Int64] = []
      var alone: [Int64] = []
      for nid in nids {
        // If its app is unknown, a notification counts as one of the phone's own app.
        guard let app = app ?? apps[nid] else {
          if isTalk { together.append(nid) } else { alone.append(nid) }
          continue
        }
        guard concerns(app) else { continue }
        if PushUrgency.isTalk(app) { together.append(nid) } else { alone.append(nid) }
      }
      return
        (PushPlaintext.deletions(together, together: true) + PushPlaintext.deletions(alone, together: false))
        .map(Content.deletion)
    case .deletionOfAll:
      return [.deletion(PushPlaintext.deletionOfAll)]
    }
  }

  private func push(
    _ content: Content, to phone: NextcloudRegistration, key: RSAPublicKey
  ) throws -> NextcloudPush {
    let (plaintext, urgency, nid): ([UInt8], PushUrgency, Int64?) =
      switch content {
      case .notification(let notification):
        (
          PushPlaintext.notification(notification, limit: key.maximumPlaintext(padding)),
          .notification(app: notification.app, type: notification.type), notification.nid
        )
      case .deletion(let plaintext): (plaintext, .deletion, nil)
      }
    let ciphertext = try key.encrypt(plaintext, padding: padding)
    let entry = Self.entry(
      for: phone.description, ciphertext: ciphertext, signature: userKey.sign(ciphertext), urgency: urgency)
    return NextcloudPush(for: phone, nid: nid, entry: entry)
  }

  /// Builds an entry as it is sent (`Documentation/Protocols/Nextcloud.md` 3.4).
  static func entry(
    for phone: NextcloudRegistration.Description, ciphertext: [UInt8], signature: [UInt8],
    urgency: PushUrgency
  ) -> String {
    let entry: JSON = [
      "deviceIdentifier": .string(phone.deviceIdentifier), "pushTokenHash": .string(phone.pushTokenHash),
      "subject": .string(Base64.encode(ciphertext)), "signature": .string(Base64.encode(signature)),
      "priority": .string(urgency.priority), "type": .string(urgency.type),
    ]
    return String(decoding: entry.php(), as: UTF8.self)
  }
}
