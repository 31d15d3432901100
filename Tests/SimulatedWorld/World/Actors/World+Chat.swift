import Foundation

extension Event {
  /// What happens of itself around the built-in chat server.
  enum Chat: Sendable {
    case message([Int])
    case open(Int), changeToken(Int), changeKey(Int), reinstall(Int), logOut(Int), logIn(Int), uninstall(Int)
    case comeBack(Int)
  }
}

extension Event.Chat: CustomStringConvertible {
  var description: String {
    func name(_ phone: Int) -> String { "phone \(Chat.firstPhone + phone)" }
    return switch self {
    case .message(let users):
      "the chat has a message for \(users.map { "user \($0)" }.joined(separator: ", "))"
    case .open(let phone): "\(name(phone)) is opened"
    case .changeToken(let phone): "\(name(phone)) gets a new token"
    case .changeKey(let phone): "\(name(phone)) makes a new key"
    case .reinstall(let phone): "\(name(phone)) installs its app anew"
    case .logOut(let phone): "\(name(phone)) logs out"
    case .logIn(let phone): "\(name(phone)) logs in"
    case .uninstall(let phone): "\(name(phone)) loses its app"
    case .comeBack(let phone): "\(name(phone)) has its app and its token again"
    }
  }
}

extension World {
  /// Lets something happen around the built-in chat server.
  func perform(_ event: Event.Chat) {
    guard let chat else { return }
    func start(_ phone: ChatPhone) { Task { await phone.open() } }
    switch event {
    case .message(let users):
      let label = nextMessage()
      for user in users { Task { await chat.notify(label, user: user) } }
    case .open(let number): start(chat.phones[number])
    case .changeToken(let number):
      guard chat.phones[number].phone.isInstalled else { return }
      chat.phones[number].phone.changeToken()
      start(chat.phones[number])
    case .changeKey(let number):
      chat.phones[number].makeKey()
      start(chat.phones[number])
    case .reinstall(let number):
      let phone = chat.phones[number]
      phone.phone.changeToken()
      phone.forgetAll()
      (phone.phone.isInstalled, phone.phone.isLoggedIn) = (true, true)
      start(phone)
    case .logOut(let number): Task { await chat.phones[number].logOut() }
    case .logIn(let number):
      chat.phones[number].phone.isLoggedIn = true
      start(chat.phones[number])
    case .uninstall(let number): chat.phones[number].phone.uninstall()
    case .comeBack(let number):
      let phone = chat.phones[number]
      if phone.phone.isInstalled { phone.phone.uninstall() }
      Task { [self] in
        try? await Task.sleep(for: .seconds(2))
        guard !isOver, !phone.phone.isInstalled else { return }
        phone.phone.comeBack()
        phone.forgetAll()
        await phone.open()
      }
    }
  }
}
