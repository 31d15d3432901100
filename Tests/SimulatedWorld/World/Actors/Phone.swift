import Foundation
import Providers
import Sealing

/// An app with one account, at any kind of server, on a phone.
protocol App: AnyObject, Sendable {
  /// The phone whose token the app has.
  var phone: Phone { get }
  /// Starts the app, which registers if necessary.
  func open() async
  func logOut() async
  /// Loses the app's data without telling any server.
  func forget()
  func installAnew()
}

/// A phone with one app and one account.
///
/// Unchecked: the world has one thread.
final class Phone: App, @unchecked Sendable {
  let number: Int
  let kind: Route.Provider
  let server: ChatServer
  /// The phone's user, who may have several phones.
  let user: Int
  /// Whether its app is a legacy one, whose notifications are not encrypted.
  var isLegacy: Bool
  /// Whether its app is the store's, whose credentials only the vendor has.
  let isOfStore: Bool
  private(set) var token = ""
  private var generation = 0
  var isInstalled = true
  var isLoggedIn = true
  /// When its server was last told to remove it. Notifications that were accepted before may be dropped.
  var forgottenAt = -1.0
  /// How often a provider reported its valid token as dead or wrong.
  var lies = 0
  /// Whether the vendor's bouncer has the token of this phone with our app, because Google has called it another
  /// project's.
  var isHandedOver = false
  /// Whether our Google has wrongly called its token another project's.
  var isCalledForeign = false
  private unowned let world: World

  init(
    _ number: Int, _ kind: Route.Provider, server: ChatServer, user: Int, isLegacy: Bool,
    isOfStore: Bool = false, world: World
  ) {
    (self.number, self.kind, self.server, self.user) = (number, kind, server, user)
    (self.isLegacy, self.isOfStore, self.world) = (isLegacy, isOfStore, world)
    changeToken()
  }

  var name: String { "phone \(number)" }
  var tokenID: TokenID { TokenID(token: token) }
  /// Whether the app is installed and signed in, and so has to receive messages.
  var isWaiting: Bool { isInstalled && isLoggedIn }

  private var provider: Provider? { world.providers[kind] }

  /// Gives the phone another token. The former one is dead from now on.
  func changeToken() {
    if !token.isEmpty { provider?.tokens[token] = .dead(since: world.time) }
    generation += 1
    let digits = String(format: "%04x%04x", number, generation)
    token =
      kind == .apns
      ? World.secret + String(repeating: digits, count: 6) + "0000" : "\(World.secret)-fcm:\(digits)"
    // Nextcloud's proxy refuses tokens that are shorter than real ones.
    if kind == .fcm, number >= NextcloudServer.firstPhone { token += String(repeating: "-", count: 100) }
    provider?.tokens[token] = .live(self)
    world.owners[token] = self
  }

  func uninstall() {
    isInstalled = false
    provider?.tokens[token] = .dead(since: world.time)
  }

  /// Reinstalls the app with its former token. For two minutes APNs still answers as if the token were dead.
  func comeBack() {
    guard !isInstalled, case .dead(let since)? = provider?.tokens[token] else { return }
    isInstalled = true
    provider?.tokens[token] = kind == .apns ? .revived(self, since: since) : .live(self)
    let token = token
    Task { [self] in
      try? await Task.sleep(for: .seconds(120))
      if case .revived? = provider?.tokens[token] { provider?.tokens[token] = .live(self) }
    }
  }

  var phone: Phone { self }

  func logOut() {
    isLoggedIn = false
    forget()
  }

  func forget() { server.forget(self) }

  func installAnew() {
    isInstalled = true
    forget()
  }

  func open() async {
    guard isWaiting else { return }
    await server.register(self)
  }

  /// The registration, sealed to the bouncer.
  func sealedRegistration() -> String {
    isOfStore
      ? Self.sealedRegistration(
        token, kind, topic: UpstreamBouncer.topic, to: UpstreamBouncer.keyPair, at: world.time)
      : Self.sealedRegistration(token, kind, at: world.time)
  }

  static func sealedRegistration(
    _ token: String, _ kind: Route.Provider, topic: String = World.topic,
    to keyPair: BouncerKeyPair = Node.keyPair, at time: Double
  ) -> String {
    var json = #"{"token":"\#(token)","token_kind":"\#(kind == .apns ? "apns" : "fcm")","timestamp":"#
    json += "\(Int64(World.epoch + time))"
    json += kind == .apns ? #","ios_app_id":"\#(topic)"}"# : "}"
    return SealedBox.seal(Array(json.utf8), to: keyPair.publicKey).map { Data($0).base64EncodedString() }
      ?? ""
  }
}
