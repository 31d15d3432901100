internal import Foundation
internal import HTTP
internal import HTTPTypes
internal import Hummingbird
internal import Registrations
internal import SQL

extension NextcloudServerRoutes {
  /// `GET identityproof/key/{userId}`: the key that signs for a user, which anybody may know
  /// by their user id. Making one takes a tenth of a second, which is spent at the user's own word alone: where
  /// nobody has needed it yet, others are told what they are told of no user.
  func identityProof(_ login: NextcloudLogin?, _ call: OCSRequest) async throws -> OCSAnswer {
    guard let user = try await findUser(call) else { throw Self.noUser }
    do {
      let isOwn = login?.user.id == user.id
      guard let key = try await dependencies.keys.publicKey(of: user.id, making: isOwn) else {
        throw Self.noUser
      }
      return OCSAnswer(.ok, data: ["public": .string(key)])
    } catch let error as DatabaseError where error.code == .foreignKeyViolation {
      // Removed this very moment.
      throw Self.noUser
    }
  }

  private static var noUser: OCSAnswer { OCSAnswer(.notFound, data: ["Account not found"]) }
}
