import Foundation

/// The vectors in `vectors.json`: two users' keys, three devices, seven notifications. All keys
/// are synthetic.
struct Vectors: Decodable {
  struct Device: Decodable {
    let name: String
    let preimage: String
    let deviceIdentifier: String
    let deviceIdentifierSignature: String
    let pushToken: String
    let pushTokenHash: String
    let otherUserSignatureOverSamePreimage: String
    let wrongSignatureOverIdentifier: String

    enum CodingKeys: String, CodingKey {
      case name, preimage, deviceIdentifier, deviceIdentifierSignature, pushToken, pushTokenHash
      case otherUserSignatureOverSamePreimage
      case wrongSignatureOverIdentifier = "WRONG_signatureOverBase64Identifier_2021regression"
    }
  }

  struct Notification: Decodable {
    let padding: String
    let plaintext: String
    let envelopeJson: String
    let wrongSignatureOverSubject: String

    enum CodingKeys: String, CodingKey {
      case padding, plaintext, envelopeJson
      case wrongSignatureOverSubject = "WRONG_signatureOverBase64Subject"
    }
  }

  let userPrivateKey: String
  let userPublicKey: String
  let devicePrivateKey: String
  let devicePublicKey: String
  let otherUserPublicKey: String
  let devices: [Device]
  let notifications: [String: Notification]
  let formBody: String

  enum CodingKeys: String, CodingKey {
    case userPrivateKey, userPublicKey, devicePrivateKey, devicePublicKey, otherUserPublicKey, devices
    case notifications
    case formBody = "notificationsFormBody_chat_voip_deleteAll"
  }

  static func load() throws -> Vectors {
    try JSONDecoder().decode(Vectors.self, from: Data(PackageResources.vectors_json))
  }
}
