import Foundation
import HTTPTypes
import Logging
import Registrations
import SQL
import Sealing

extension World {
  /// Records that a chat server's notification for a phone was answered 200. `time` is when the call was
  /// made: a phone that was removed since may or may not receive it.
  func promised(_ label: String, to token: String, of phone: Phone, at time: Double) {
    figures.promises += 1
    ledger.promises.append(
      .init(label: label, token: token, phone: phone, time: time, answeredAt: self.time))
  }

  /// Records a push that a provider accepted.
  func arrived(_ arrival: Arrival) {
    figures.arrivals += 1
    let push = arrival.push
    guard let owner = owners[push.token] else {
      return violate("readable to nobody", "a push goes to a token that nobody has")
    }
    if owner.number >= Gateway.firstPhone { return arrivedFromGateway(arrival, at: owner) }
    if owner.number >= NextcloudChat.firstPhone { return arrivedFromNextcloudChat(arrival, at: owner) }
    if owner.number >= Chat.firstPhone { return arrivedFromChat(arrival, at: owner) }
    note("\(owner.name): \(push.label)\(push.isLegacy ? " in clear" : "") (\(arrival.life.node))")
    guard owner.number < NextcloudServer.firstPhone else {
      return arrivedFromNextcloud(arrival, at: owner)
    }
    switch push.label {
    case let label where label.hasPrefix(Tenancy.formerLabel):
      tenancy?.formerReaches(owner, label)
      return
    case Impostor.label where impostor?.mayReach(push.token) == true: return
    default: break
    }
    let parts = push.label.split(separator: ".")
    let phone = account(of: parts, on: owner)
    guard parts.count == 3, parts[1] == "s\(phone.server.number)",
      parts[2] == "p\(phone.number)" || parts[2] == "u\(phone.user)"
    else { return violate("readable to nobody else", "\(push.label) goes to \(phone.name)") }
    let key = "\(parts[0]) \(phone.number)"
    let formers = ledger.arrivals[key] ?? []
    checkOnce(arrival, push.label, after: rivals(of: push, at: phone, formers))
    if formers.contains(where: { $0.push.id != push.id && $0.push.isLegacy == push.isLegacy }) {
      violate("one apns-id", "\(push.label) arrives again under another apns-id")
    }
    ledger.arrivals[key, default: []].append(arrival)
    if push.isLegacy { checkLeft(phone, String(parts[0])) }
  }

  /// "Nothing arrives twice, but after a crash or a lost answer."
  func checkOnce(_ arrival: Arrival, _ label: String, after formers: [Arrival]) {
    if formers.isEmpty { checkPromptness(of: label, arrival) }
    guard ledger.lostCommitAt < ledger.messages[String(label.prefix { $0 != "." }), default: 0] else {
      return
    }
    for former in formers where !former.mayComeAgain(at: time) && !arrival.isTakenOver(from: former) {
      // After a takeover, only the answer to the try that took the lease over ends the entry.
      if formers.contains(where: { $0.isTakenOver(from: former) && $0.mayComeAgain(at: time) }) { continue }
      return violate(
        "nothing arrives twice",
        "\(label) arrives again: its first arrival, \(String(format: "%.1f", time - former.time)) s ago, was answered"
      )
    }
  }

  /// Records a log line of a node.
  func heard(_ message: String, _ metadata: Logger.Metadata, level: Logger.Level, from life: Life) {
    if level >= .info, message != "request" {
      note(
        "\(life.node) (run \(life.number)): \(message) \(metadata.filter { $0.key != "request_id" }.sorted { $0.key < $1.key }.map { "\($0)=\($1)" }.joined(separator: " "))"
      )
    }
    let text = "\(message) \(metadata)"
    if Self.secretSpellings.contains(where: text.contains) || text.contains(Self.plaintext) {
      violate("nothing secret in the log", text)
    }
    checkEnd(message, metadata, by: life)
    switch message {
    case "notification refused", "notification given up", "registration ended":
      if case .string(let spelled)? = metadata["token"] {
        let token = ledger.canonical(spelled)
        ledger.losses[token, default: 0] += 1
        if message == "registration ended" { ledger.ended[token] = time }
      }
      ledger.lines[life.number, default: [:]][Int(time / 60), default: 0] += 1
    case "notifications that cannot be sent were dropped" where metadata["registration_unreadable"] != nil:
      violate("every token opens", "a registration is read under a name that it was not sealed for")
    // The built-in Nextcloud server's.
    case "push proxy refused pushes", "push proxy answered without counts; counted as accepted",
      "pushes given up: no push proxy accepted them":
      nextcloudChat?.lost += Int("\(metadata["count"] ?? "1")") ?? 1
    case "phones removed: their push proxy does not know them": nextcloudChat?.removals.append(time)
    case _ where message.hasPrefix("notifications refused:"): ledger.backlogged += 1
    case _ where message.hasPrefix("more lines were left out: notifications refused because of a backlog"):
      ledger.backlogged += Int("\(metadata["left_out"] ?? "0")") ?? 0
    default: break
    }
  }

  /// The node to which a load balancer passes a call: one that accepts connections, if there is any.
  func balanced(_ random: inout WorldRandom) -> Node {
    let alive = nodes.filter(\.isAlive)
    return random.pick(alive.isEmpty ? nodes : alive)
  }

  /// Makes a call of a server or a phone. A refusal is a violation unless the world has caused trouble.
  func call(
    _ node: Node, _ name: String, _ path: String, method: HTTPRequest.Method = .post, headers: HTTPFields,
    body: [UInt8]
  ) async -> (node: Node, answer: Answer?) {
    let began = time
    let answer = standIn.answer(
      to: name, await node.call(path, method: method, headers: headers, body: body))
    answered(name, answer, by: node, since: began)
    return (node, answer)
  }

  /// A call of a chat server has ended.
  func answered(_ endpoint: String, _ answer: Answer?, by node: Node, since began: Double) {
    figures.calls += 1
    let wasWell =
      node.isAlive && node.life.isAlive && ledger.databaseTroubleAt < began - 12 && !node.life.isCut
      && database.isWell && !node.life.disturbances.contains { $0 >= began }
    guard wasWell else { return }
    switch answer?.status {
    case nil:
      if node.life.number > 0, began >= coarseUntil, time - began >= 15 {
        violate("every call is answered", "\(endpoint): no answer in 15 s")
      }
    case let status? where status >= 500:
      violate("nothing is refused that can be kept", "\(endpoint): \(status) although all is well")
    default: break
    }
  }
}

extension Arrival {
  /// Whether this push's sender may have taken over the lease of another try, because its clock was ahead of
  /// the lease holder's. The margin is for the time between taking an entry and sending it, and between an
  /// answer and its write to the outbox.
  func isTakenOver(from former: Arrival) -> Bool {
    ahead - former.ahead > 10 && time - (former.answeredAt ?? time) < 20
  }

  /// Whether its sender may send it again, because it got no answer or could not write it to the outbox.
  func mayComeAgain(at now: Double) -> Bool {
    guard let answeredAt else {
      // The outbox waits for three seconds, and then as long as for any late answer.
      return isAnswerLost || !life.isAlive || now - time > 3 + Node.answerTimeout / .seconds(1)
    }
    return !life.isAlive || life.disturbances.contains { $0 >= answeredAt - 0.001 }
  }
}

extension Ledger {
  /// Whether the log has reported the end of a token's registration, and with it of the notifications
  /// promised until `time`. The margin of 15 s is how long a server waits for an answer.
  func isOver(_ token: String, promisedAt time: Double) -> Bool {
    time - 15 <= ended[Self.fingerprint(of: token), default: -.infinity]
  }

  /// Whether so many lines were logged in a minute that some may have been left out.
  var isLoud: Bool {
    // The service's minute begins at any moment.
    lines.values.contains { minutes in minutes.contains { $1 + minutes[$0 + 1, default: 0] >= 60 } }
  }
}
