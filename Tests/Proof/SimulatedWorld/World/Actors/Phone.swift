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
  /// What it shares with other accounts of the same app.
  let device: Device
  /// The app's bundle id, if it is Apple's.
  let topic: String
  /// Whether its app is the store's, whose credentials only the vendor has.
  let isOfStore: Bool
  var isLoggedIn = true
  /// When its server was last told to remove it. Notifications that were accepted before may be dropped.
  var forgottenAt = -1.0
  /// Whether the upstream bouncer has the token of this phone with our app, because Google has called it another
  /// project's.
  var isHandedOver = false
  /// Whether our Google has wrongly called its token another project's.
  var isCalledForeign = false
  private unowned let world: World

  init(
    _ number: Int, _ kind: Route.Provider, server: ChatServer, user: Int, isLegacy: Bool,
    isOfStore: Bool = false, topic: String = World.topic, on device: Device? = nil, world: World
  ) {
    (self.number, self.kind, self.server, self.user) = (number, kind, server, user)
    (self.isOfStore, self.topic, self.world) = (isOfStore, topic, world)
    self.device = device ?? Device(isLegacy: isLegacy)
    self.device.accounts.append(self)
    if device == nil { changeToken() }
  }

  var name: String { "phone \(number)" }
  var tokenID: TokenID { TokenID(token: token) }
  /// Whether the app is installed and signed in, and so has to receive messages.
  var isWaiting: Bool { isInstalled && isLoggedIn }

  private var provider: Provider? { world.providers[kind] }

  /// An app on a phone, with one account or several.
  ///
  /// Unchecked: the world has one thread.
  final class Device: @unchecked Sendable {
    fileprivate(set) var token = ""
    fileprivate var generation = 0
    fileprivate var isInstalled = true
    fileprivate var isLegacy: Bool
    fileprivate var lies = 0
    fileprivate(set) var accounts: [Phone] = []

    fileprivate init(isLegacy: Bool) { self.isLegacy = isLegacy }
  }

  /// The token, as the app spells it.
  var token: String { device.token }
  var isInstalled: Bool {
    get { device.isInstalled }
    set { device.isInstalled = newValue }
  }
  /// Whether its app is a legacy one, whose notifications are not encrypted.
  var isLegacy: Bool {
    get { device.isLegacy }
    set { device.isLegacy = newValue }
  }
  /// How often a provider reported its valid token as dead or wrong.
  var lies: Int {
    get { device.lies }
    set { device.lies = newValue }
  }

  /// Gives the phone another token. The former one is dead from now on.
  func changeToken() {
    if !token.isEmpty { provider?.tokens[token] = .dead(since: world.time) }
    device.generation += 1
    let digits = String(format: "%04x%04x", number, device.generation)
    device.token =
      kind == .apns
      ? World.secret + String(repeating: digits, count: 6) + "0000" : "\(World.secret)-fcm:\(digits)"
    // Nextcloud's proxy refuses tokens that are shorter than real ones.
    if kind == .fcm, number >= NextcloudServer.firstPhone {
      device.token += String(repeating: "-", count: 100)
    }
    if kind == .webPush { device.token = world.pushService.subscribe(digits) }
    provider?.tokens[token] = .live(self)
    world.owners[token] = self
  }

  /// Spells the token in another way, as another version of the app does. Apple takes it in any case.
  func respell(_ spelling: Spelling) {
    guard kind == .apns else { return }
    device.token = spelling.of(token)
    world.ledger.spelled(token)
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
    server.forget(self)
  }

  func forget() { for account in device.accounts { account.server.forget(account) } }

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
      : Self.sealedRegistration(token, kind, topic: topic, at: world.time)
  }

  static func sealedRegistration(
    _ token: String, _ kind: Route.Provider, topic: String = World.topic,
    to keyPair: BouncerKeyPair = Node.keyPair, for audience: String? = nil, at time: Double
  ) -> String {
    var json = #"{"token":"\#(token)","token_kind":"\#(kind == .apns ? "apns" : "fcm")","timestamp":"#
    json += "\(Int64(World.epoch + time))"
    if let audience { json += #","audience":"\#(audience)""# }
    json += kind == .apns ? #","ios_app_id":"\#(topic)"}"# : "}"
    return SealedBox.seal(Array(json.utf8), to: keyPair.publicKey).map { Data($0).base64EncodedString() }
      ?? ""
  }
}

/// How an app writes a token of Apple's, which is hexadecimal.
enum Spelling: Sendable, CaseIterable {
  case lower, upper, mixed

  func of(_ token: String) -> String {
    switch self {
    case .lower: token.lowercased()
    case .upper: token.uppercased()
    case .mixed:
      String(
        token.enumerated().map {
          $0.isMultiple(of: 2) ? Character($1.uppercased()) : Character($1.lowercased())
        })
    }
  }
}

/// Values by token, whatever its spelling.
struct TokenTable<Value> {
  private(set) var byToken: [String: Value] = [:]

  subscript(token: String) -> Value? {
    get { byToken[token.canonicalToken] }
    set { byToken[token.canonicalToken] = newValue }
  }
}

extension String {
  /// The same for all spellings of a token.
  var canonicalToken: String { hasPrefix("webpush:") ? self : lowercased() }
}
