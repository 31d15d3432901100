import Crypto
import Foundation
import HTTP
import Sealing

/// What Nextcloud's servers, phones and push proxies sign and encrypt for each other
/// (`Documentation/Protocols/Nextcloud.md` 2).
extension Vectors {
  func makeNextcloud() -> JSON {
    let user = RSAPrivateKey.generate()
    let device = RSAPrivateKey.generate()
    let preimage = Array(#"["alice@cloud.example.org\/nextcloud",42]"#.utf8)
    let registration: JSON = [
      "kind": "nextcloud_registration", "user_public_key": .string(user.publicKey.pem),
      "preimage": .string(String(decoding: preimage, as: UTF8.self)),
      "device_identifier": .string(Base64.encode(Array(SHA512.hash(data: preimage)))),
      "signature": .string(Base64.encode(user.sign(preimage))),
    ]
    let texts = [#"{"delete-all":true}"#, String(repeating: "x", count: 214)]
    let notifications = texts.flatMap { text in
      [("OAEP", RSAPadding.oaep), ("PKCS1", .pkcs1)].compactMap { name, padding -> JSON? in
        guard let subject = try? device.publicKey.encrypt(Array(text.utf8), padding: padding) else {
          return nil
        }
        return [
          "kind": "nextcloud_notification", "user_public_key": .string(user.publicKey.pem),
          "device_private_key": .string(device.pem), "padding": .string(name), "plaintext": .string(text),
          "subject": .string(Base64.encode(subject)), "signature": .string(Base64.encode(user.sign(subject))),
        ]
      }
    }
    return .array([registration] + notifications)
  }

  /// nil for a vector of another kind.
  func opensNextcloud(_ vector: JSON) -> Bool? {
    func bytes(_ name: String) -> [UInt8]? { vector[name]?.string.flatMap(Base64.decodeStrictly) }
    guard let kind = vector["kind"]?.string, kind.hasPrefix("nextcloud_") else { return nil }
    guard let user = vector["user_public_key"]?.string.flatMap({ try? RSAPublicKey(pem: $0) }),
      let signature = bytes("signature")
    else { return false }
    switch kind {
    case "nextcloud_registration":
      guard let identifier = bytes("device_identifier"), let preimage = vector["preimage"]?.string else {
        return false
      }
      return Array(SHA512.hash(data: Data(preimage.utf8))) == identifier
        && user.verifies(signature, digest: identifier)
    case "nextcloud_notification":
      guard let subject = bytes("subject"),
        let device = vector["device_private_key"]?.string.flatMap({ try? RSAPrivateKey(pem: $0) })
      else { return false }
      let padding: RSAPadding = vector["padding"] == "OAEP" ? .oaep : .pkcs1
      return user.verifies(signature, of: subject)
        && device.decrypt(subject, padding: padding) == vector["plaintext"]?.string.map { Array($0.utf8) }
    default: return false
    }
  }
}
