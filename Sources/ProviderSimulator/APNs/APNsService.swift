import Foundation
import NIOCore
import NIOFoundationCompat
import NIOHPACK

/// APNs' rules: what becomes of a notification.
final class APNsService: Sendable {
  /// A connection's provider token. Belongs to the connection's event loop.
  final class Session {
    fileprivate var authorization: String?
    fileprivate var issuedAt = 0
    fileprivate var changedAt = NIODeadline.distantPast

    var isAuthenticated: Bool { authorization != nil }
  }

  private struct Body: Decodable {
    private enum Key: CodingKey { case aps }

    init(from decoder: any Decoder) throws {
      _ = try decoder.container(keyedBy: Key.self).nestedContainer(keyedBy: Key.self, forKey: .aps)
    }
  }

  let plan: FaultPlan
  let ledger: Ledger
  private let tokens: ProviderTokenChecker
  private let topics: Set<String>
  private let interval: TimeAmount

  init(
    credentials: SimulatorCredentials, topics: [String], interval: Duration, plan: FaultPlan, ledger: Ledger
  ) {
    tokens = ProviderTokenChecker(credentials)
    self.topics = Set(topics + topics.map { $0 + ".voip" })
    self.interval = TimeAmount(interval)
    self.plan = plan
    self.ledger = ledger
  }

  /// The answer to a notification.
  func answer(_ request: HPACKHeaders, body: ByteBuffer, fate: FaultPlan.Fate, session: Session) -> Answer {
    let headers = APNsHeaders(request)
    let id = headers.id.flatMap { UUID(uuidString: $0) == nil ? nil : $0 } ?? UUID().uuidString
    var answer: Answer
    do throws(APNsRefusal) {
      answer = try judge(headers, request, body: body, id: id, fate: fate, session: session)
    } catch {
      answer = refuse(status: error.status, reason: error.reason)
    }
    answer.headers.append(("apns-id", id))
    answer.delayMilliseconds += fate.latencyMilliseconds
    return answer
  }

  private func judge(
    _ headers: APNsHeaders, _ request: HPACKHeaders, body: ByteBuffer, id: String, fate: FaultPlan.Fate,
    session: Session
  ) throws(APNsRefusal) -> Answer {
    guard headers.method == "POST" else { throw .methodNotAllowed }
    let token = try headers.token()
    guard !headers.hasDuplicates else { throw .duplicateHeaders }
    try authenticate(headers.authorization, session)
    if let failure = fate.failure {
      var answer =
        failure.isHTML
        ? Answer.html(failure.status)
        : refuse(status: failure.status, reason: failure.reason ?? APNsRefusal.usualReason(failure.status))
      if failure.isHTML { ledger.count { $0.refused += 1 } }
      if let retryAfter = failure.retryAfter { answer.headers.append(("retry-after", retryAfter)) }
      return answer
    }
    let topic = try headers.check(topics: topics)
    guard body.readableBytes > 0 else { throw .payloadEmpty }
    guard body.readableBytes <= (headers.pushType == "voip" ? 5120 : 4096) else { throw .payloadTooLarge }
    guard (try? JSONDecoder().decode(Body.self, from: body)) != nil else { throw .payloadEmpty }

    let rule = plan.rule(for: token)
    if let rule, rule.status != 200 {
      var refused = refuse(
        status: rule.status, reason: rule.reason ?? APNsRefusal.usualReason(rule.status), timestamp: rule.timestamp)
      refused.delayMilliseconds = rule.delayMilliseconds
      return refused
    }
    ledger.accept(.apns) { sequence in
      guard fate.isRecorded else { return nil }
      var shown: [String: String] = [:]
      for (name, value, _) in request where !name.hasPrefix(":") && name != "authorization" { shown[name] = value }
      return Delivery(
        sequence: sequence, provider: .apns, token: token, topic: topic, project: nil, headers: shown,
        payload: Data(buffer: body), receivedAt: Date(), id: id)
    }
    return Answer(status: 200, delayMilliseconds: rule?.delayMilliseconds ?? 0)
  }

  private func authenticate(_ authorization: String?, _ session: Session) throws(APNsRefusal) {
    guard let authorization else { throw .missingProviderToken }
    let now = Int(Date().timeIntervalSince1970)
    if authorization == session.authorization {
      guard ProviderTokenChecker.isFresh(session.issuedAt, now: now) else { throw .expiredProviderToken }
      return
    }
    guard authorization.prefix(7).lowercased() == "bearer " else { throw .missingProviderToken }
    let (issuedAt, isNew) = try tokens.check(String(authorization.dropFirst(7)), now: now).get()
    guard session.authorization == nil || NIODeadline.now() - session.changedAt >= interval else {
      throw .tooManyProviderTokenUpdates
    }
    if isNew { ledger.count { $0.providerTokens += 1 } }
    session.authorization = authorization
    session.issuedAt = issuedAt
    session.changedAt = .now()
  }

  private func refuse(status: Int, reason: String, timestamp: Int? = nil) -> Answer {
    ledger.count { $0.refused += 1 }
    var fields: [String: Any] = ["reason": reason]
    if status == 410 { fields["timestamp"] = timestamp ?? Int(Date().timeIntervalSince1970 * 1000) }
    let body = (try? JSONSerialization.data(withJSONObject: fields)) ?? Data()
    return Answer(status: status, headers: [("content-type", "application/json")], body: ByteBuffer(data: body))
  }
}
