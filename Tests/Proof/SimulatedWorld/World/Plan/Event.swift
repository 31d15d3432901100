import Providers

/// Something that happens in a world.
struct Event: Sendable, CustomStringConvertible {
  /// Identifies the event when the minimiser leaves events out.
  let number: Int
  /// Seconds since the world began.
  let time: Double
  let action: Action

  /// Phones are numbered across all servers: those of Nextcloud, of the chats and of the gateway from their `firstPhone` on.
  enum Action: Sendable {
    case message(server: Int, users: [Int])
    case open(Int), changeToken(Int), reinstall(Int), logOut(Int), logIn(Int), uninstall(Int), comeBack(Int)
    case update(Int)
    case trouble(Route.Provider, Trouble, seconds: Double)
    case kill(Int, seconds: Double)
    case cut(Int, seconds: Double)
    case clock(Int, by: Double, seconds: Double)
    case databaseAway(seconds: Double), databaseFull(seconds: Double), databaseSlow(seconds: Double)
    case databaseLosesAnswers(percent: Int, seconds: Double)
    case pass(seconds: Double)
    case nextcloudMessage([Int]), newNextcloudKey(user: Int)
    case chatMessage([Int]), changePushKey(Int)
    case nextcloudChatMessage([Int]), takeBack(user: Int, isByPhone: Bool)
    case proxyTrouble(Trouble, seconds: Double)
    case webPush(Plan.WebPushPlan, users: [Int])
    case hostile(Hostile)
    case tenant(Tenant)
    case upstreamTrouble(UpstreamTrouble, seconds: Double)
    /// A chat server reports its realms, as every hour.
    case report(server: Int)
  }

  var description: String {
    "\(number): at \(Int(time)) s, \(action)"
  }
}

extension Event.Action: CustomStringConvertible {
  var description: String {
    switch self {
    case .message(let server, let users):
      "server \(server) has a message for \(users.map { "user \($0)" }.joined(separator: ", "))"
    case .open(let phone): "phone \(phone) is opened"
    case .changeToken(let phone): "phone \(phone) gets a new token"
    case .reinstall(let phone): "phone \(phone) installs its app anew"
    case .logOut(let phone): "phone \(phone) logs out"
    case .logIn(let phone): "phone \(phone) logs in"
    case .uninstall(let phone): "phone \(phone) loses its app"
    case .comeBack(let phone): "phone \(phone) has its app and its token again"
    case .update(let phone): "phone \(phone) is updated to an encrypted app"
    case .trouble(let provider, let trouble, let seconds): "\(provider) \(trouble) for \(Int(seconds)) s"
    case .kill(let node, let seconds): "node \(node) is killed, and started again after \(Int(seconds)) s"
    case .cut(let node, let seconds): "node \(node) does not reach the database for \(Int(seconds)) s"
    case .clock(let node, let by, let seconds):
      "node \(node)'s clock is wrong by \(Int(by)) s for \(Int(seconds)) s"
    case .databaseAway(let seconds): "the database is away for \(Int(seconds)) s"
    case .databaseFull(let seconds): "the database is full for \(Int(seconds)) s"
    case .databaseSlow(let seconds): "the database is slow for \(Int(seconds)) s"
    case .databaseLosesAnswers(let percent, let seconds):
      "the database's answers to \(percent) % of the commits are lost for \(Int(seconds)) s"
    case .nextcloudMessage(let users):
      "nextcloud has a message for \(users.map { "user \($0)" }.joined(separator: ", "))"
    case .newNextcloudKey(let user): "nextcloud makes new keys for user \(user)"
    case .chatMessage(let users):
      "the chat has a message for \(users.map { "user \($0)" }.joined(separator: ", "))"
    case .nextcloudChatMessage(let users):
      "the chat with Nextcloud's apps has a message for \(users.map { "user \($0)" }.joined(separator: ", "))"
    case .takeBack(let user, let isByPhone):
      "\(isByPhone ? "a phone" : "the chat") takes a message to user \(user) back"
    case .proxyTrouble(let trouble, let seconds): "the way to the proxy \(trouble) for \(Int(seconds)) s"
    case .webPush(let message, let users):
      "a Web Push sender has a message for \(users.map { "user \($0)" }.joined(separator: ", ")) (\(message))"
    case .changePushKey(let phone): "phone \(phone) makes a new key"
    case .hostile(let event): "\(event)"
    case .tenant(let event): "\(event)"
    case .upstreamTrouble(let trouble, let seconds): "the upstream bouncer \(trouble) for \(Int(seconds)) s"
    case .report(let server): "server \(server) reports its realms"
    case .pass(let seconds): "nothing happens for \(Int(seconds)) s"
    }
  }
}
