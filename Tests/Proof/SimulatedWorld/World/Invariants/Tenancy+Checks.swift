import Providers

/// The promises on who may call, and what is sent with.
extension Tenancy {
  /// The longest time until a change is in force at every node, in seconds.
  static let inForceAfter = 1.0

  /// A chat server's call was answered.
  ///
  /// - Parameters:
  ///   - names: what it was called with.
  func answered(
    _ server: ChatServer, _ endpoint: String, _ names: [String], _ status: Int, since began: Double
  ) {
    let names = endpoint == "server/analytics" ? Array(names.prefix(2)) : names
    if let name = names.first(where: { refusedSince[$0].map { $0 + Self.inForceAfter < began } ?? false }) {
      // Wrong clocks may lengthen a former key's ten minutes, too.
      guard status == 200, !isClockInDoubt || refusedSince[name].map({ $0 < began - Self.grace }) != false
      else { return }
      return world.violate("what is switched off is refused", "\(endpoint) of \(name) is answered 200")
    }
    guard status == 401 || status == 403, changedAt[names[0], default: -1] < began else { return }
    let end = names.compactMap { refusedSince[$0] }.min()
    guard end ?? .infinity > world.time else { return }
    if end == nil || !isClockInDoubt { refuse(server, endpoint, status) }
  }

  func refuse(_ server: ChatServer, _ endpoint: String, _ status: Int) {
    world.violate("who may call is let in", "\(endpoint) of \(server.name) is answered \(status)")
  }

  /// Whether no credential served a phone's app at some time between these, so that what was accepted is lost.
  func isUnserved(_ phone: Phone, from start: Double, to end: Double) -> Bool {
    guard phone.kind != .webPush else { return false }
    let target = phone.kind == .apns ? phone.topic : Self.google
    return unserved.contains { $0.target == target && $0.from <= end && start <= $0.to }
  }

  static let google = "google"
  /// What those say who may not call any more.
  static let formerLabel = "of-former-"

  /// A notification of one who might not call any more arrives. It is no violation if it was let in again meanwhile.
  func formerReaches(_ phone: Phone, _ label: String) {
    guard let number = Int(label.dropFirst(Self.formerLabel.count)), refusedSince[formers[number]] != nil
    else { return }
    world.violate("what is switched off is refused", "\(formers[number]) reaches \(phone.name)")
  }

  /// "What is switched off is refused": a node that has read its key folder sends with what is in it.
  func checkCredential(_ push: ReceivedPush, _ provider: Route.Provider, from life: Life) {
    guard provider != .webPush, let since = life.credentialsSince, since + Self.inForceAfter < world.time
    else { return }
    let isPresent =
      switch provider {
      case .apns: life.credentials.apns.contains { $0.keyID == push.key }
      default: life.credentials.fcm.contains { $0.privateKeyID == push.key }
      }
    guard !isPresent else { return }
    world.violate(
      "what is switched off is refused",
      "\(push.label) is sent with \(push.key ?? "no key"), which is not there")
  }
}
