// An app as a command, for tests of the library and of gateways: Examples/story.py says what it does, and tests it.
import Foundation
import PushBouncerClient
import PushBouncerSealing

/// What the app keeps.
struct State: Codable {
  var keys = WebPushKeys()
  /// How it subscribes.
  var account: Account?
  var subscription: Subscription?
  var zulipKey: ZulipPushKey?

  struct Account: Codable {
    var address: String
    var kind: String
    var token: String
    var appID: String?
    var sender: String?
    var sealTo: String?

    func registration() throws -> Registration {
      let clear = try Self.registration(kind, token, appID)
      return try sealTo.map { try clear.sealed(to: $0) } ?? clear
    }

    static func registration(_ kind: String, _ token: String, _ appID: String?) throws -> Registration {
      switch (kind, appID) {
      case ("apns", let appID?): .apns(token: token, appID: appID)
      case ("fcm", _): .fcm(token: token)
      default: throw Failure("usage: TOKEN_KIND is fcm, or apns with --ios-app-id")
      }
    }
  }
}

struct Failure: Error, CustomStringConvertible {
  let description: String

  init(_ description: String) { self.description = description }
}

/// Calls through curl, as URLSession on Linux refuses answers whose Content-Encoding it does not know. What is secret goes to
/// its standard input.
func send(_ call: GatewayCall) throws -> GatewayAnswer {
  func quoted(_ text: String) -> String {
    "\"\(text.replacingOccurrences(of: "\\", with: "\\\\").replacingOccurrences(of: "\"", with: "\\\""))\""
  }
  var options = ["request = \(call.method)", "url = \(quoted(call.url))", "header = \"Expect:\""]
  options += call.headers.map { "header = \(quoted("\($0.key): \($0.value)"))" }
  if let body = call.body { options.append("data-binary = \(quoted(String(decoding: body, as: UTF8.self)))") }
  let curl = Process()
  let (input, output) = (Pipe(), Pipe())
  curl.executableURL = URL(fileURLWithPath: "/usr/bin/env")
  curl.arguments = [
    "curl", "--disable", "--silent", "--show-error", "--include", "--http1.1", "--proto", "=http,https",
    "--max-time", "30", "--max-filesize", "\(GatewayAnswer.maximumBody)", "--config", "-",
  ]
  (curl.standardInput, curl.standardOutput) = (input, output)
  try curl.run()
  input.fileHandleForWriting.write(Data(options.joined(separator: "\n").utf8))
  try input.fileHandleForWriting.close()
  let answer = output.fileHandleForReading.readDataToEndOfFile()
  curl.waitUntilExit()
  guard curl.terminationStatus == 0, let end = answer.range(of: Data("\r\n\r\n".utf8)) else {
    throw Failure("the gateway does not answer")
  }
  let lines = String(decoding: answer[..<end.lowerBound], as: UTF8.self).components(separatedBy: "\r\n")
  let headers = lines.dropFirst().map { line in
    let (name, value) = (line.prefix { $0 != ":" }, line.drop { $0 != ":" }.dropFirst())
    return (String(name), value.trimmingCharacters(in: .whitespaces))
  }
  return GatewayAnswer(
    status: lines[0].split(separator: " ").dropFirst().first.flatMap { Int($0) } ?? 0,
    headers: headers, body: Data(answer[end.upperBound...]))
}

func show(_ object: [String: String?]) throws {
  let encoder = JSONEncoder()
  encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
  FileHandle.standardOutput.write(try encoder.encode(object) + Data("\n".utf8))
}

func text(_ bytes: Data?) -> String { String(decoding: bytes ?? Data(), as: UTF8.self) }

/// Runs a command on the state, which is stored afterwards, also if it fails.
func run(_ command: String, _ words: [String], _ options: [String: String], _ state: inout State) async throws
{
  func gateway() throws -> Gateway {
    guard let account = state.account else { throw Failure("the app has not subscribed yet") }
    return Gateway(account.address, transport: { try send($0) })
  }
  func subscription() throws -> Subscription {
    guard let subscription = state.subscription else { throw PushError.notSubscribed }
    return subscription
  }
  func enrol() async throws {
    guard let account = state.account else { throw Failure("the app has not subscribed yet") }
    let made = try await gateway().enrol(
      state.subscription, as: account.registration(), sender: account.sender)
    state.subscription = made
    try show(["endpoint": made.endpoint, "p256dh": state.keys.p256dh, "auth": state.keys.auth])
  }
  switch (command, words.count) {
  case ("subscribe", 3):
    state.account = State.Account(
      address: words[0], kind: words[1], token: words[2], appID: options["--ios-app-id"],
      sender: options["--sender-key"], sealTo: options["--seal-to"])
    try await enrol()
  case ("renew", 1):
    state.account?.token = words[0]
    try await enrol()
  case ("received", 0):
    let members = try JSONSerialization.jsonObject(with: FileHandle.standardInput.readDataToEndOfFile())
    do {
      let push = try ReceivedPush(members as? [String: Any] ?? [:])
      try await show(["text": text(gateway().open(push, of: subscription(), with: state.keys))])
    } catch {
      try show(["text": nil, "reason": "\(error)"])
    }
  case ("waiting", 0):
    try await gateway().collect(for: subscription(), with: state.keys) { body in
      try show(body.map { ["text": text($0)] } ?? ["text": nil, "reason": "\(PushError.unreadable)"])
    }
  case ("unsubscribe", 0):
    if let subscription = state.subscription { try await gateway().unsubscribe(subscription) }
    state = State()
  case ("zulip-register", 3):
    let registration = try State.Account.registration(words[0], words[1], options["--ios-app-id"])
    let key = state.zulipKey ?? ZulipPushKey()
    state.zulipKey = key
    try show(key.fields(for: registration, to: words[2]))
  case ("zulip-open", 1):
    guard let key = state.zulipKey else { throw PushError.notSubscribed }
    try show(["text": text(key.open(words[0]))])
  default: throw Failure("usage: try-app STATE COMMAND ...; Examples/story.py has the commands")
  }
}

do {
  var words = Array(CommandLine.arguments.dropFirst())
  var options: [String: String] = [:]
  for option in ["--ios-app-id", "--sender-key", "--seal-to"] {
    guard let place = words.firstIndex(of: option), place + 1 < words.count else { continue }
    options[option] = words[place + 1]
    words.removeSubrange(place...place + 1)
  }
  guard words.count >= 2 else { throw Failure("usage: try-app STATE COMMAND ...") }
  let file = URL(fileURLWithPath: words[0])
  let stored = try? Data(contentsOf: file)
  var state = try stored.map { try JSONDecoder().decode(State.self, from: $0) } ?? State()
  let outcome: Result<Void, any Error>
  do {
    outcome = .success(try await run(words[1], Array(words[2...]), options, &state))
  } catch {
    outcome = .failure(error)
  }
  // The keys are secret.
  umask(0o077)
  try JSONEncoder().encode(state).write(to: file, options: .atomic)
  try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: file.path)
  try outcome.get()
} catch {
  FileHandle.standardError.write(Data("\(error)\n".utf8))
  exit(1)
}
