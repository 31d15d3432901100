/// Why a row is not brought in.
package enum Refusal: String, Error, Sendable, CaseIterable {
  /// A server without a key: anybody could speak for it.
  case noKey = "no_key"
  /// Of a server that is not there, or was refused.
  case unknownServer = "unknown_server"
  /// Of a realm that is not there, or was refused.
  case unknownRealm = "unknown_realm"
  /// Of a realm that belongs to another server, there or here.
  case anothersRealm = "anothers_realm"
  /// Of a realm of the Zulip server itself that the bouncer is part of, and not of a remote one.
  case cloudRealm = "cloud_realm"
  /// Neither APNs nor FCM.
  case unknownKind = "unknown_kind"
  /// A token of no characters, or of more than 4096.
  case tokenLength = "token_length"
  /// An APNs token that is not hexadecimal.
  case tokenNotHexadecimal = "token_not_hexadecimal"
  /// A `token_id` that is not its token's.
  case wrongTokenID = "wrong_token_id"
  /// An APNs token without its app: it could never be sent to.
  case noAppID = "no_app_id"
  /// A malformed app id.
  case malformedAppID = "malformed_app_id"
  /// Nobody's.
  case noUser = "no_user"
  /// A user by number and by UUID in one row, which upstream does not have.
  case twoUsers = "two_users"
  /// A user's number below zero.
  case userIDOutOfRange = "user_id_out_of_range"

  /// For people.
  package var text: String {
    switch self {
    case .noKey: "the server has no key"
    case .unknownServer: "its server is not there or was refused"
    case .unknownRealm: "its realm is not there or was refused"
    case .anothersRealm: "its realm belongs to another server"
    case .cloudRealm: "it is a device of the Zulip server itself, not of a remote one"
    case .unknownKind: "its kind is neither APNs nor FCM"
    case .tokenLength: "its token is empty or longer than 4096 characters"
    case .tokenNotHexadecimal: "its APNs token is not hexadecimal"
    case .wrongTokenID: "its token_id is not its token's"
    case .noAppID: "its APNs token has no app id, so it could never be sent to"
    case .malformedAppID: "its app id is malformed"
    case .noUser: "it has neither user_id nor user_uuid"
    case .twoUsers: "it has both user_id and user_uuid"
    case .userIDOutOfRange: "its user_id is out of range"
    }
  }
}
