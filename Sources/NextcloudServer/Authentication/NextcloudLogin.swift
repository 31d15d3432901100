internal import Accounts

/// Who calls an OCS endpoint.
struct NextcloudLogin: Sendable {
  /// The user.
  let user: User
  /// The app password that it has signed in with; nil if it was its API key, which stands for no phone.
  let appPassword: Int64?
}
