import Foundation

extension Event {
  /// What happens of itself around a Nextcloud server.
  enum Nextcloud: Sendable {
    case message([Int])
    case open(Int), changeToken(Int), reinstall(Int), logOut(Int), logIn(Int), uninstall(Int), comeBack(Int)
    case newKey(user: Int)
  }
}

extension Event.Nextcloud: CustomStringConvertible {
  var description: String {
    func name(_ phone: Int) -> String { "phone \(NextcloudServer.firstPhone + phone)" }
    return switch self {
    case .message(let users):
      "nextcloud has a message for \(users.map { "user \($0)" }.joined(separator: ", "))"
    case .open(let phone): "\(name(phone)) is opened"
    case .changeToken(let phone): "\(name(phone)) gets a new token"
    case .reinstall(let phone): "\(name(phone)) installs its app anew"
    case .logOut(let phone): "\(name(phone)) logs out"
    case .logIn(let phone): "\(name(phone)) logs in"
    case .uninstall(let phone): "\(name(phone)) loses its app"
    case .comeBack(let phone): "\(name(phone)) has its app and its token again"
    case .newKey(let user): "nextcloud makes new keys for user \(user)"
    }
  }
}

extension World {
  /// Lets something happen around the Nextcloud server.
  func perform(_ event: Event.Nextcloud) {
    guard let cloud = nextcloud else { return }
    func start(_ phone: NextcloudPhone) { Task { await phone.open() } }
    switch event {
    case .message(let users):
      let label = nextMessage()
      Task { await cloud.notify(label, users: users) }
    case .open(let number): start(cloud.phones[number])
    case .changeToken(let number):
      guard cloud.phones[number].phone.isInstalled else { return }
      cloud.phones[number].phone.changeToken()
      start(cloud.phones[number])
    case .reinstall(let number):
      let phone = cloud.phones[number]
      phone.phone.changeToken()
      phone.forgetLogin()
      (phone.phone.isInstalled, phone.phone.isLoggedIn) = (true, true)
      start(phone)
    case .logOut(let number): Task { await cloud.phones[number].logOut() }
    case .logIn(let number):
      cloud.phones[number].phone.isLoggedIn = true
      start(cloud.phones[number])
    case .uninstall(let number): cloud.phones[number].phone.uninstall()
    case .comeBack(let number):
      let phone = cloud.phones[number]
      if phone.phone.isInstalled { phone.phone.uninstall() }
      Task { [self] in
        try? await Task.sleep(for: .seconds(2))
        guard !isOver, !phone.phone.isInstalled else { return }
        phone.phone.comeBack()
        phone.forgetLogin()
        await phone.open()
      }
    case .newKey(let user): cloud.makeKey(of: user)
    }
  }
}
