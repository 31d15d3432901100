import Crypto
import Foundation
import HTTPTypes
import Providers

/// A phone with one of Nextcloud's apps and one account. It registers at every start, first with its server and then
/// with the push proxy, as stock apps do.
///
/// Unchecked: the world has one thread.
final class NextcloudPhone: App, @unchecked Sendable {
  /// A registration that the proxy has confirmed.
  struct Registration: Equatable {
    let identifier: [UInt8]
    let token: String
  }

  /// Owns the token, and changes it.
  let phone: Phone
  private(set) var confirmed: Registration?
  private unowned let cloud: NextcloudServer
  /// The number of the app password. Each login makes a new one, and with it another device identifier.
  private var login: Int
  private var isRegistering = false
  /// Until this time, a call whose caller has given up may still take effect.
  private var doubtUntil = -1.0

  init(_ phone: Phone, cloud: NextcloudServer) {
    (self.phone, self.cloud) = (phone, cloud)
    login = cloud.nextLogin()
  }

  /// The bytes that the server signs: the account and the number of the app password, as PHP encodes them in
  /// JSON.
  var preimage: [UInt8] { Array(#"["user\#(phone.user)@cloud.example.org",\#(login)]"#.utf8) }
  var identifier: [UInt8] { Array(SHA512.hash(data: preimage)) }

  func open() async {
    guard phone.isWaiting, !isRegistering else { return }
    isRegistering = true
    defer { isRegistering = false }
    var told: Registration
    repeat {
      told = Registration(identifier: identifier, token: phone.token)
      let signed = cloud.register(self)
      let (node, answer) = await cloud.call(
        .post, "devices", agent: agent, from: address, [("pushToken", told.token)] + signed)
      cloud.world.note(
        "\(phone.name): registers with the proxy: \(answer.map { "\($0.status)" } ?? "no answer")")
      if answer == nil, node.isAlive { doubtUntil = cloud.world.time + 120 }
      let isSure = answer?.status == 200 && cloud.world.time > doubtUntil
      confirmed = isSure && told.identifier == identifier ? told : nil
    } while phone.isWaiting && told != Registration(identifier: identifier, token: phone.token)
  }

  /// Unregisters at the server and, with one try, at the proxy. The next login has another identifier.
  func logOut() async {
    guard phone.isWaiting else { return }
    let signed = cloud.forget(self)
    forget()
    phone.isLoggedIn = false
    let (_, answer) = await cloud.call(
      .delete, "devices", agent: agent, from: address, signed)
    cloud.world.note(
      "\(phone.name): leaves the proxy: \(answer.map { "\($0.status)" } ?? "no answer")")
  }

  func installAnew() {
    forget()
    (phone.isInstalled, phone.isLoggedIn) = (true, true)
  }

  /// The next login has another identifier.
  func forget() {
    phone.forgottenAt = cloud.world.time
    confirmed = nil
    login = cloud.nextLogin()
  }

  /// The phone's IP address.
  private var address: String { "192.0.2.\(1 + phone.number % 250)" }

  private var agent: String {
    phone.kind == .apns ? "Mozilla/5.0 (iOS) Nextcloud-Talk v20" : "Mozilla/5.0 (Android) Nextcloud-Talk v20"
  }
}
