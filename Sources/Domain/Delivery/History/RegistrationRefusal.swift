/// The reasons why chat servers' calls to register a device are refused, by the code of the answer. The list is closed,
/// because they are counted.
package enum RegistrationRefusal: String, Sendable, Hashable, CaseIterable {
  case wrongKey = "INVALID_BOUNCER_PUBLIC_KEY"
  case expired = "REQUEST_EXPIRED"
  case unknownRealm = "MISSING_REMOTE_REALM"
  case anothersRealm = "REMOTE_REALM_SERVER_MISMATCH_ERROR"
  case malformed = "BAD_REQUEST"
  case other = "OTHER"

  /// - Parameter code: the code of the answer.
  package init(code: String) { self = Self(rawValue: code) ?? .other }

  /// An explanation, and what to do, in sentences.
  package var meaning: String {
    switch self {
    case .wrongKey:
      """
      The app was built with a public key that this push notification service does not have: it is an app for another \
      service, or its key was removed here.
      """
    case .expired:
      """
      The registration was made more than a day before it came here, or the phone's clock is wrong. The app makes \
      another when it is opened.
      """
    case .unknownRealm:
      "The organization is not known here yet. The chat server reports it with its next upload of analytics."
    case .anothersRealm:
      "The organization is registered to another chat server. See the answer of the call for how to get it back."
    case .malformed:
      """
      The call or what the app sealed in it is not as it should be, or names a push service that may not be called: the \
      app or the chat server is of another kind or version.
      """
    case .other:
      "The call was refused for another reason. The answer said why, and so does the chat server's log."
    }
  }
}
