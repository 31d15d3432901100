import Crypto
import Foundation
import HTTP
import HTTPTypes
import Sealing

/// A chat application without push code of its own whose users have Nextcloud's apps: it sends its messages to
/// the built-in Nextcloud server, where their phones register.
///
/// Unchecked: the world has one thread.
final class NextcloudChat: NextcloudHost, @unchecked Sendable {
  /// The number of users, who are the chat's in ``Chat`` too.
  static let users = Chat.users
  /// The number of the first phone.
  static let firstPhone = 30_000
  static let mostPhones = 4
  /// Two for each phone, made once for all worlds: RSA keys take long.
  static let keys = (0..<2 * mostPhones).map { _ in RSAPrivateKey.generate() }
  /// The proxy's address as the server names it, and another that it takes for somebody else's.
  static let (ownProxy, otherProxy) = ("https://push.example.org", "https://proxy.example.org")

  /// A login of a phone.
  struct Session {
    let key: RSAPrivateKey
    var password: String?
    var device: SignedDevice?
  }

  /// A message that was answered 200.
  struct Told {
    let label: String
    /// When the call was made. A phone that was removed since may or may not receive it.
    let time: Double
    let phones: [(phone: NextcloudPhone, registration: NextcloudPhone.Registration)]
    /// The number of pushes that were called failed.
    let failed: Int
  }

  unowned let world: World
  let wire: ProxyWire
  private(set) var phones: [NextcloudPhone] = []
  private(set) var told: [Told] = []
  /// The number of pushes that the log told were lost.
  var lost = 0
  /// When the log told that the proxy does not know phones.
  var removals: [Double] = []
  private var proxies: [String] = []
  private var sessions: [Int: Session] = [:]
  /// By phone: the number of each of its logins, the latest last.
  private var logins: [Int: [Int]] = [:]
  /// The public key of each user, as phones were told it.
  private var userKeys: [Int: RSAPublicKey] = [:]
  /// By user: the messages that were sent and not taken back, with the time of the call's end.
  private var standing: [Int: [(nid: Int, label: String)]] = [:]
  /// By number of the notification: the label of what takes it back, and the login of the phone on which it was read.
  private(set) var takenBack: [String: (label: String, reader: Int?)] = [:]
  private var lastLogin = 0
  private var random: WorldRandom

  init(_ plans: [Plan.NextcloudChatPhonePlan], world: World, seed: UInt64) {
    self.world = world
    wire = ProxyWire(world: world, seed: seed)
    random = WorldRandom(seed: seed, "nextcloud chat")
    proxies = plans.map { $0.namesOwnProxy ? Self.ownProxy : Self.otherProxy }
    phones = plans.enumerated().map { number, plan in
      let phone = Phone(
        Self.firstPhone + number, plan.kind, server: world.servers[0], user: plan.user, isLegacy: false,
        world: world)
      return NextcloudPhone(phone, host: self)
    }
    _ = Self.keys
  }

  func nextNode() -> Node { world.balanced(&random) }

  func nextLogin() -> Int {
    lastLogin += 1
    return lastLogin
  }

  // MARK: The phones' calls

  func register(_ phone: NextcloudPhone) async -> SignedDevice? {
    let (login, token) = (phone.login, phone.phone.token)
    let number = phone.phone.number - Self.firstPhone
    if sessions[login] == nil {
      logins[number, default: []].append(login)
      sessions[login] = Session(key: Self.keys[2 * number + (logins[number]?.count ?? 0) % 2])
    }
    if sessions[login]?.password == nil {
      let password = await signIn(phone)
      sessions[login]?.password = password
    }
    guard let session = sessions[login], let password = session.password else { return nil }
    if let identifier = session.device?.identifier { wire.registers(identifier, for: 120) }
    let hash = SHA512.hash(data: Data(token.utf8)).map { String(format: "%02x", $0) }.joined()
    let answer = await call(
      .post, Self.push, phone, password,
      [
        ("pushTokenHash", hash), ("devicePublicKey", session.key.publicKey.pem),
        ("proxyServer", proxies[number]),
      ])
    // The phone was signed out, and signs in when it is opened again.
    if answer?.status == 401 { sessions[login]?.password = nil }
    guard let data = Self.data(answer), let identifier = data["deviceIdentifier"]?.string,
      let signature = data["signature"]?.string, let key = data["publicKey"]?.string
    else { return nil }
    let device = SignedDevice(identifier: identifier, signature: signature, userKey: key)
    wire.registers(identifier, for: 0)
    checkSame(device, as: session.device, of: phone.phone)
    sessions[login]?.device = device
    return device
  }

  /// A login keeps its device identifier, and a user the key.
  private func checkSame(_ device: SignedDevice, as former: SignedDevice?, of phone: Phone) {
    guard let key = try? RSAPublicKey(pem: device.userKey),
      key == userKeys[phone.user, default: key], former?.identifier ?? device.identifier == device.identifier
    else {
      return world.violate("a user keeps the key", "\(phone.name) is told another key or device identifier")
    }
    userKeys[phone.user] = key
  }

  /// Returns an app password, which the phone gets for the account's API key or by the login flow.
  private func signIn(_ phone: NextcloudPhone) async -> String? {
    guard random.chance(0.5) else {
      let answer = await call(
        .get, "ocs/v2.php/core/getapppassword", phone, Chat.apiKey(of: phone.phone.user), [])
      return Self.data(answer)?["apppassword"]?.string
    }
    let flow = await call(.post, "index.php/login/v2", phone, nil, [])?.json
    guard let poll = flow?["poll"]?["token"]?.string, let page = flow?["login"]?.string else { return nil }
    let token = page.split(separator: "/").last ?? ""
    guard await grant(String(token), user: phone.phone.user)?.status == 200 else { return nil }
    return await call(.post, "index.php/login/v2/poll", phone, nil, [("token", poll)])?
      .json["appPassword"]?.string
  }

  func forget(_ phone: NextcloudPhone) async -> SignedDevice? {
    guard let session = sessions[phone.login], let password = session.password else { return nil }
    _ = await call(.delete, Self.push, phone, password, [])
    let answer = await call(.delete, "ocs/v2.php/core/apppassword", phone, password, [])
    if answer?.status == 200, let device = session.device { wire.leaves(device.identifier) }
    return session.device
  }

  private func call(
    _ method: HTTPRequest.Method, _ path: String, _ phone: NextcloudPhone, _ secret: String?,
    _ fields: [(String, String)]
  ) async -> Answer? {
    var headers: HTTPFields = [.accept: "application/json"]
    headers[HTTPField.Name("OCS-APIRequest")!] = "true"  // a valid token
    if let secret {
      headers[.authorization] =
        "Basic " + Base64.encode(Array("\(Chat.email(of: phone.phone.user)):\(secret)".utf8))
    }
    let (node, answer) = await call(
      method, path, agent: phone.agent, from: phone.address, fields, headers: headers)
    phone.noteDoubt(answer, by: node)
    world.note(
      "\(phone.phone.name): \(path): \(answer.map { "\($0.status)" } ?? "no answer") (\(node.name))")
    return answer
  }

  private static func data(_ answer: Answer?) -> JSON? {
    answer.flatMap { 200...201 ~= $0.status ? $0.json["ocs"]?["data"] : nil }
  }

  private static let push = "ocs/v2.php/apps/notifications/api/v2/push"

  // MARK: The chat's calls

  static func label(_ message: String, _ user: Int) -> String { "\(message).cloud.u\(user)" }

  /// Tells users of a message.
  func notify(_ message: String, users: some Sequence<Int>) {
    for user in users { Task { await notify(message, user: user) } }
  }

  private func notify(_ message: String, user: Int) async {
    let label = Self.label(message, user)
    // One of its own for each user, by which a phone tells what is taken back.
    let nid = (Int(message.dropFirst()) ?? 0) * Self.users + user
    let meant = confirmed(user)
    let body = """
      {"nextcloud":{"nid":\(nid),"app":"spreed","subject":"\(World.plaintext)\(label)","type":"chat","id":"room"}}
      """
    guard let (began, failed) = await send(body, label, user) else { return }
    standing[user, default: []].append((nid, label))
    promise(label, meant, began, failed: failed)
  }

  /// Takes a user's oldest message back: a phone on which it was read, or the chat, tells the others.
  func takeBack(_ message: String, user: Int, isByPhone: Bool) async {
    guard let (nid, former) = standing[user]?.first else { return }
    standing[user]?.removeFirst()
    let label = Self.label(message, user)
    let reader = isByPhone ? phones.first { $0.phone.user == user && $0.confirmed != nil } : nil
    let meant = confirmed(user).filter { $0.phone !== reader }
    // What still waits becomes pointless.
    told.removeAll { $0.label == former }
    takenBack["\(nid)"] = (label, reader?.login)
    guard let reader, let password = sessions[reader.login]?.password else {
      let body = #"{"nextcloud":{"delete_nids":[\#(nid)],"app":"spreed"}}"#
      guard let (began, failed) = await send(body, label, user) else { return }
      return promise(label, meant, began, failed: failed)
    }
    let began = world.time
    // Phones that nobody has any more may be called failed, which no answer tells.
    let others = max(0, world.nextcloudServerRows(of: user).count - meant.count - 1)
    let path = "ocs/v2.php/apps/notifications/api/v2/notifications/\(nid)"
    guard await call(.delete, path, reader, password, [])?.status == 200 else { return }
    promise(label, meant, began, failed: others)
  }

  private func confirmed(_ user: Int) -> [(phone: NextcloudPhone, registration: NextcloudPhone.Registration)]
  {
    phones.filter { $0.phone.user == user }.compactMap { phone in phone.confirmed.map { (phone, $0) } }
  }

  private func promise(
    _ label: String, _ meant: [(phone: NextcloudPhone, registration: NextcloudPhone.Registration)],
    _ began: Double, failed: Int
  ) {
    let known = Set(world.nextcloudServerRows().map(\.identifier))
    let meant = meant.filter {
      $0.phone.confirmed == $0.registration && known.contains(Base64.encode($0.registration.identifier))
    }
    world.figures.promises += meant.count
    told.append(Told(label: label, time: began, phones: meant, failed: failed))
  }

  /// Returns when the call was made, and how many pushes have failed; nil if it had no success.
  private func send(_ body: String, _ label: String, _ user: Int) async -> (began: Double, failed: Int)? {
    let began = world.time
    let answer = await callBackend("notifications", body, user)
    world.note(
      "chat: \(label): \(answer.map { "\($0.status) \($0.text.prefix { $0 != "\n" })" } ?? "no answer")")
    guard answer?.status == 200, case .array(let proxies)? = answer?.json["nextcloud"]?["proxies"] else {
      return nil
    }
    return (began, proxies.reduce(0) { $0 + Int($1["failed"]?.integer ?? 0) })
  }

  private func grant(_ token: String, user: Int) async -> Answer? {
    await callBackend("login-flows", #"{"token":"\#(token)"}"#, user)
  }

  private func callBackend(_ path: String, _ body: String, _ user: Int) async -> Answer? {
    var headers: HTTPFields = [.contentType: "application/json"]
    headers[.authorization] = "Bearer \(Chat.backendToken)"
    let realm = World.chatIdentity?.realm ?? ""
    return await world.call(
      nextNode(), "backend/\(path)", "/backend/v1/realms/\(realm)/users/\(user + 1)/\(path)",
      headers: headers, body: Array(body.utf8)
    ).answer
  }

  // MARK: What arrives

  /// A push as its phone reads it, and the login that it is for; nil: no key of the phone opens it.
  func opened(_ push: ReceivedPush, at phone: NextcloudPhone) -> (label: String, login: Int)? {
    let number = phone.phone.number - Self.firstPhone
    for login in logins[number, default: []].suffix(2).reversed() {
      guard let subject = push.subject,
        let bytes = sessions[login]?.key.decrypt(subject, padding: .oaep)
      else { continue }
      let text = String(decoding: bytes, as: UTF8.self)
      let label =
        text.between(World.plaintext, "\"") ?? text.between(#""nid":"#, ",").flatMap { takenBack[$0]?.label }
      return (label ?? "", login)
    }
    return nil
  }

  func hasSigned(_ push: ReceivedPush, for user: Int) -> Bool {
    guard let subject = push.subject, let signature = push.signature else { return false }
    return userKeys[user]?.verifies(signature, of: subject) == true
  }

  /// App passwords, none of which may be stored in clear.
  var passwords: [String] { sessions.values.compactMap(\.password) }
}
