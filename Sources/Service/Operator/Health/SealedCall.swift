package import HTTP
package import Sealing

/// A question of one of this program's own commands to the service that runs, and the answer to it.
///
/// Both are sealed under `storage.key`, which only the service's files hold, and the answer is bound to its question. So a
/// command shows nobody a token, and whatever else listens on `admin.port` can neither read the question nor answer it. One
/// who passes both on to another node with the same key learns nothing: that node answers for itself, in this one's place.
package struct SealedCall: Sendable {
  package enum Question: Sendable, Equatable {
    /// What the service serves with, and how it is.
    case state
    /// What `/deliveries` tells of the devices that a text names.
    case deliveries(String)
  }

  package static let path = "/sealed"
  /// The size of the largest body, in bytes.
  static let maximumBytes = 1024

  package let question: Question
  /// The request's body. It is different each time, also for the same question.
  package let body: [UInt8]
  private let storageKey: StorageKey

  /// For the command that asks.
  package init(_ question: Question, _ storageKey: StorageKey) {
    self.question = question
    body = storageKey.seal(question.json.text, at: SealedPlace(column: "command.question"))
    self.storageKey = storageKey
  }

  /// For the service; nil if the body is not from a command that has the key.
  init?(received body: [UInt8], _ storageKey: StorageKey) {
    let place = SealedPlace(column: "command.question")
    guard let opened = storageKey.open(body, at: place, isCounted: false),
      let json = try? JSON.parse(opened), let question = Question(json)
    else { return nil }
    self.question = question
    self.body = body
    self.storageKey = storageKey
  }

  /// The response's body.
  func seal(_ answer: JSON) -> [UInt8] { storageKey.seal(answer.text, at: place) }

  /// Opens the response's body; nil if it is not from a service that has the key, or answers another question.
  package func open(_ answer: [UInt8]) -> JSON? {
    storageKey.open(answer, at: place, isCounted: false).flatMap { try? JSON.parse($0) }
  }

  private var place: SealedPlace {
    var place = SealedPlace(column: "command.answer")
    place.append(bytes: body)
    return place
  }
}

extension SealedCall.Question {
  fileprivate var json: JSON {
    switch self {
    case .state: ["ask": "state"]
    case .deliveries(let text): ["ask": "deliveries", "q": .string(text)]
    }
  }

  fileprivate init?(_ json: JSON) {
    switch json["ask"]?.string {
    case "state"?: self = .state
    case "deliveries"?: self = .deliveries(json["q"]?.string ?? "")
    default: return nil
    }
  }
}
