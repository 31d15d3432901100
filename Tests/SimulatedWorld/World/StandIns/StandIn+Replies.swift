/// Answers to chat servers as they must not be.
extension StandIn {
  static let replies: [StandIn] = [
    replying("register-fails-hard") { endpoint, answer in
      guard endpoint == "push/e2ee/register", answer?.status == 429 else { return answer }
      return Answer(status: 503, text: "")
    },
    replying("register-forgets") { endpoint, answer in
      guard endpoint == "push/e2ee/register", let answer, answer.status != 200 else { return answer }
      return Answer(status: 200, text: #"{"result":"success","msg":""}"#)
    },
    replying("deaths-are-not-told") { endpoint, answer in
      guard endpoint == "push/e2ee/notify", let answer else { return answer }
      return Answer(
        status: answer.status, text: answer.text.replacing("delete_token_ids", with: "nothing"))
    },
    replying("promises-too-much") { endpoint, answer in
      guard endpoint.hasSuffix("notify"), answer?.status == 503 else { return answer }
      return Answer(status: 200, text: #"{"result":"success","msg":""}"#)
    },
  ]

  private static func replying(
    _ name: String, _ reply: @escaping @Sendable (String, Answer?) -> Answer?
  ) -> StandIn {
    var standIn = StandIn(name: name)
    standIn.reply = reply
    return standIn
  }
}
