/// Why a phone cannot read a notification that has arrived for it.
package enum Unreadable: Error, Hashable, CustomStringConvertible {
  /// The payload has nothing in it that is encrypted for an app.
  case notEncrypted
  /// `push_key_id` names a key that the phone does not have.
  case unknownKey(Int64)
  /// A Nextcloud server's signature is missing, or is not the one of the user's key.
  case wrongSignature
  /// The phone's keys do not open it.
  case wrongKey
  /// What was encrypted is not what an app can read.
  case malformed

  package var description: String {
    switch self {
    case .notEncrypted: "it is not encrypted for an app"
    case .unknownKey(let id): "it names the push key \(id), which the phone does not have"
    case .wrongSignature: "the key that the server has shown to the phone has not signed it"
    case .wrongKey: "it is encrypted with another key than the phone's"
    case .malformed: "it was decrypted, and the content is not what an app expects"
    }
  }
}
