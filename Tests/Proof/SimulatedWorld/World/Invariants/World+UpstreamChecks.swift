import Providers
import Sealing

/// The promises that concern the upstream bouncer.
extension World {
  /// Our own providers are asked to send to a phone with the store's app. Only Google can tell whose an old app's token
  /// is; it refuses those that are not ours.
  func askedForStore(_ push: ReceivedPush, of phone: Phone) {
    if phone.kind == .apns || !push.isLegacy {
      violate("no phone is told from both sides", "\(phone.name) has the store's app, and we send to it")
    }
  }

  /// The upstream bouncer gets an old app's token.
  func isPassedOn(_ token: String) {
    guard let phone = owners[token], !phone.isOfStore else { return }
    // Google has called it another project's: whoever believes that is not to blame.
    if phone.isCalledForeign { return phone.isHandedOver = true }
    violate(
      "no phone is told from both sides", "\(phone.name) has our app, and the upstream bouncer gets its token"
    )
  }

  /// The arrivals besides which a push is one too many. The upstream bouncer sends what is in clear to all of a user's
  /// devices that it has been told of. Until it is told that one of them was updated, that one gets both.
  func rivals(of push: ReceivedPush, at phone: Phone, _ formers: [Arrival]) -> [Arrival] {
    guard phone.isOfStore else { return formers }
    // A node whose clock is ahead takes over what is under way. It may send it later, since a chat server that waits for
    // its turn there waits with all that it has.
    let isAhead = nodes.contains { $0.life.skew > 10 }
    let formers = formers.filter { !isAhead && ledger.clockTroubleAt < $0.time }
    guard !phone.isLegacy else { return formers }
    // A device that it has called gone by mistake is nothing that it could be told of.
    guard upstream?.isSettled == false || phone.lies > 0 else { return formers }
    return formers.filter { $0.push.isLegacy == push.isLegacy }
  }

  /// How often the log has told of the loss of what was sent in one call to this token's phone and others.
  func toldWith(_ token: String) -> Int {
    guard let phone = owners[token] else { return 0 }
    return companions(of: phone).reduce(0) { $0 + ledger.losses(of: $1) }
  }

  /// Whether what waited for this phone and others of its user ended with another one's registration, as the vendor's
  /// bouncer wrongly called all of them gone. What waits is one call, and the log tells of one of its registrations.
  func isOverWith(_ phone: Phone, promisedAt time: Double) -> Bool {
    phone.lies > 0 && companions(of: phone).contains { ledger.isOver($0, promisedAt: time) }
  }

  /// The tokens of a user's other phones with the store's app.
  private func companions(of phone: Phone) -> [String] {
    guard phone.isOfStore else { return [] }
    return owners.byToken.filter {
      $0.value !== phone && $0.value.isOfStore && $0.value.server === phone.server
        && $0.value.user == phone.user
    }.map(\.key)
  }

  /// Lets the realms be reported and the pauses end that the upstream bouncer has caused.
  func settleUpstream() {
    guard upstream != nil else { return }
    for server in servers { Task { await server.report() } }
    pass(until: time + 1000, grain: settlingGrain)
  }

  /// Has a message sent with which updated apps are found, and lets that take effect.
  func findUpdated() {
    guard upstream != nil, violation == nil else { return }
    _ = probe()
  }
}

extension Phone {
  /// Whose word on its token counts.
  var judge: Route.Provider { isOfStore ? .upstream : kind }
}
