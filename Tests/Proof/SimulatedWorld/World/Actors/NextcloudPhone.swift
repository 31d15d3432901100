import Crypto
import Foundation
import HTTPTypes
import Providers
import Sealing

/// A phone with one of Nextcloud's apps and one account. It registers at every start, first with its server and then
/// with the push proxy, as stock apps do.
///
/// Unchecked: the world has one thread.
final class NextcloudPhone: App, @unchecked Sendable {
  /// A registration that server and proxy have confirmed.
  struct Registration: Equatable {
    let identifier: [UInt8]
    let token: String
  }

  /// Owns the token, and changes it.
  let phone: Phone
  private(set) var confirmed: Registration? { didSet { confirmedAt = host.world.time } }
  /// When that last changed.
  private(set) var confirmedAt = -1000.0
  private unowned let host: any NextcloudHost
  /// The number of the login. Each has an app password of its own, and with it another device identifier.
  private(set) var login: Int
  private var isRegistering = false
  /// Until this time, a call whose caller has given up may still take effect.
  private var doubtUntil = -1.0

  init(_ phone: Phone, host: any NextcloudHost) {
    (self.phone, self.host) = (phone, host)
    login = host.nextLogin()
  }

  /// The bytes that a stock server signs: the account and the number of the app password, as PHP encodes them in
  /// JSON.
  var preimage: [UInt8] { Array(#"["user\#(phone.user)@cloud.example.org",\#(login)]"#.utf8) }
  /// The device identifier at a stock server.
  var identifier: [UInt8] { Array(SHA512.hash(data: preimage)) }

  func open() async {
    guard phone.isWaiting, !isRegistering else { return }
    isRegistering = true
    defer { isRegistering = false }
    var told: (login: Int, token: String)
    repeat {
      told = (login, phone.token)
      guard let device = await host.register(self) else {
        confirmed = nil
        continue
      }
      let (node, answer) = await host.call(
        .post, "devices", agent: agent, from: address, [("pushToken", told.token)] + device.fields)
      host.world.note(
        "\(phone.name): registers with the proxy: \(answer.map { "\($0.status)" } ?? "no answer")")
      noteDoubt(answer, by: node)
      let isSure = answer?.status == 200 && host.world.time > doubtUntil
      confirmed =
        isSure && told.login == login
        ? Base64.decodeStrictly(device.identifier).map { Registration(identifier: $0, token: told.token) }
        : nil
    } while phone.isWaiting && told != (login, phone.token)
  }

  /// A call of the phone has ended. If it had no answer, it may take effect later.
  func noteDoubt(_ answer: Answer?, by node: Node) {
    if answer == nil, node.isAlive { doubtUntil = host.world.time + 120 }
  }

  /// Unregisters at the server and, with one try, at the proxy. The next login has another identifier.
  func logOut() async {
    guard phone.isWaiting else { return }
    phone.isLoggedIn = false
    let device = await host.forget(self)
    forget()
    guard let device else { return }
    let (_, answer) = await host.call(.delete, "devices", agent: agent, from: address, device.fields)
    host.world.note(
      "\(phone.name): leaves the proxy: \(answer.map { "\($0.status)" } ?? "no answer")")
  }

  func installAnew() {
    forget()
    (phone.isInstalled, phone.isLoggedIn) = (true, true)
  }

  /// The next login has another identifier.
  func forget() {
    phone.forgottenAt = host.world.time
    confirmed = nil
    login = host.nextLogin()
  }

  /// The phone's IP address.
  var address: String { "192.0.2.\(1 + phone.number % 250)" }

  var agent: String {
    phone.kind == .apns ? "Mozilla/5.0 (iOS) Nextcloud-Talk v20" : "Mozilla/5.0 (Android) Nextcloud-Talk v20"
  }
}
