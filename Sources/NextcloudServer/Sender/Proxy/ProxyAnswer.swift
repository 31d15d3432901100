internal import HTTP
internal import NIOCore

/// What a proxy says to a request, and what it means (`Documentation/Protocols/Nextcloud.md` 6.5).
package enum ProxyAnswer: Sendable, Hashable {
  /// It has taken the entries, but for `failed` of them, and does not know some phones. HTTP's status does
  /// not matter then. `failed` is nil where it is no number.
  case taken(status: Int, unknown: Set<String>, failed: Int?)
  /// It has taken them and tells no more.
  case silent(status: Int)
  /// It will not take them; nil where it was not even asked.
  case refused(status: Int?)
  /// It has not taken them, but may later; nil where it gave no answer.
  case unavailable(status: Int?)

  /// An answer by its parts.
  init(status: Int, body: ByteBuffer) {
    if status < 500, let json = try? JSON.parse(body), let unknown = json["unknown"],
      let failed = json["failed"]
    {
      let names: [String] = if case .array(let list) = unknown { list.compactMap(\.string) } else { [] }
      self = .taken(
        status: status, unknown: Set(names), failed: failed.integer.map { Int(clamping: $0) })
    } else {
      self = (200..<300).contains(status) ? .silent(status: status) : ProxyAnswer(refusal: status)
    }
  }

  /// An answer that is no success.
  package init(refusal status: Int) {
    self = status < 500 ? .refused(status: status) : .unavailable(status: status)
  }

  /// HTTP's status, if there was an answer.
  var status: Int? {
    switch self {
    case .taken(let status, _, _), .silent(let status): status
    case .refused(let status), .unavailable(let status): status
    }
  }
}
