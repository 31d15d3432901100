package import HTTP
internal import HTTPTypes
internal import Hummingbird
internal import SQL

extension BackendRoutes {
  /// The parts of a notification, as the body has them: what phones are to read, what old apps are sent,
  /// and what Nextcloud's apps are.
  package struct Message: Sendable {
    /// `zulip`
    package var zulip: Field?
    /// `legacy`
    package var legacy: Field?
    /// `nextcloud`
    package var nextcloud: Field?
  }

  /// What became of a part.
  package struct PartResult: Sendable {
    let name: String
    let outcome: Result<JSON, any Error>

    /// A part, by its name in the body, with its result or why it could not be sent.
    package init(_ name: String, _ outcome: Result<JSON, any Error>) {
      self.name = name
      self.outcome = outcome
    }
  }

  /// `POST .../notifications`: sends a notification to all devices of a user, by every way that the body
  /// has a part for. Parts stand alone: where one was sent and another could not be, the answer is 200 and
  /// says so, so that what was sent is not sent again.
  func sendNotification(_ request: Request, _ context: WireContext) async throws -> Response {
    let body = try await Self.body(of: request, members: ["zulip", "legacy", "nextcloud"])
    let message = Message(
      zulip: body["zulip"].present, legacy: body["legacy"].present, nextcloud: body["nextcloud"].present)
    guard message.zulip ?? message.legacy ?? message.nextcloud != nil else {
      throw APIError("\(body.path) wants zulip, legacy or nextcloud, with what is to be sent")
    }
    let results = try await notify(try await user(context), message)
    if let failure = results.first?.failure, results.allSatisfy({ $0.failure != nil }) { throw failure }
    return Envelope.response(.ok, results.map { .init($0.name, $0.json) })
  }
}

extension BackendRoutes.PartResult {
  fileprivate var failure: (any Error)? {
    if case .failure(let error) = outcome { error } else { nil }
  }

  fileprivate var json: JSON {
    switch outcome {
    case .success(let json): return json
    case .failure(let error):
      let error = error as? APIError ?? (error is DatabaseError ? .tryAgainLater : .internalError)
      return [
        "result": "error", "status": .integer(Int64(error.status.code)), "msg": .string(error.message),
        "code": .string(error.code),
      ]
    }
  }
}
