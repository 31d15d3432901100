import Foundation
import Providers
import Sealing

/// An app with one account, of whatever server, on a phone.
protocol App: AnyObject, Sendable {
  /// Whose token it has.
  var phone: Phone { get }
  /// It is started, and registers if it has to.
  func open() async
  func logOut() async
  /// It has lost all that it knew; nobody is told.
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
  /// Whose it is; somebody may have several.
  let user: Int
  /// Whether its app is an old one, which gets its notifications in clear.
  var isLegacy: Bool
  private(set) var token = ""
  private var generation = 0
  var isInstalled = true
  var isLoggedIn = true
  /// When its server was last told to forget it: what was promised before may go nowhere.
  var forgottenAt = -1.0
  /// How often a provider called its token dead or wrong while it was neither.
  var lies = 0
  private unowned let world: World

  init(_ number: Int, _ kind: Route.Provider, server: ChatServer, user: Int, isLegacy: Bool, world: World) {
    (self.number, self.kind, self.server, self.user) = (number, kind, server, user)
    (self.isLegacy, self.world) = (isLegacy, world)
    changeToken()
  }

  var name: String { "phone \(number)" }
  var tokenID: TokenID { TokenID(token: token) }
  /// Whether the app is there and waits for messages.
  var isWaiting: Bool { isInstalled && isLoggedIn }

  private var provider: Provider? { world.providers[kind] }

  /// The provider gives it another token; the former one is dead from now on.
  func changeToken() {
    if !token.isEmpty { provider?.tokens[token] = .dead(since: world.time) }
    generation += 1
    let digits = String(format: "%04x%04x", number, generation)
    token =
      kind == .apns
      ? World.secret + String(repeating: digits, count: 6) + "0000" : "\(World.secret)-fcm:\(digits)"
    // Nextcloud's proxy takes only what is as long as a token.
    if kind == .fcm, number >= NextcloudServer.firstPhone { token += String(repeating: "-", count: 100) }
    provider?.tokens[token] = .live(self)
    world.owners[token] = self
  }

  func uninstall() {
    isInstalled = false
    provider?.tokens[token] = .dead(since: world.time)
  }

  /// The app comes back and is given the token that it had; the provider's answers are of before for a while.
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

  /// What it seals for the bouncer.
  func sealedRegistration() -> String { Self.sealedRegistration(token, kind, at: world.time) }

  static func sealedRegistration(_ token: String, _ kind: Route.Provider, at time: Double) -> String {
    var json = #"{"token":"\#(token)","token_kind":"\#(kind == .apns ? "apns" : "fcm")","timestamp":"#
    json += "\(Int64(World.epoch + time))"
    json += kind == .apns ? #","ios_app_id":"\#(World.topic)"}"# : "}"
    return SealedBox.seal(Array(json.utf8), to: Node.keyPair.publicKey).map { Data($0).base64EncodedString() }
      ?? ""
  }
}
