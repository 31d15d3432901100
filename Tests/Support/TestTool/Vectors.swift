import ArgumentParser
import Basics
import Crypto
import Foundation
import HTTP
import Sealing

/// `vectors`: seals test vectors for other implementations to open, and opens theirs.
struct Vectors: ParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Makes sealed test vectors, or checks those of another implementation.")

  @Option(help: ArgumentHelp("A JSON file with vectors to check.", valueName: "file")) var check: String?
  @Flag(help: "Makes those of Nextcloud instead.") var nextcloud = false

  func run() throws {
    guard let check else { return print((nextcloud ? makeNextcloud() : make()).text) }
    guard case .array(let vectors) = try JSON.parse(Data(contentsOf: URL(fileURLWithPath: check))) else {
      throw Fault("\(check) is no array of vectors")
    }
    for (index, vector) in vectors.enumerated() where try !opens(vector) {
      throw Fault("vector \(index) does not open")
    }
    print("\(vectors.count) vectors open")
  }

  private func make() -> JSON {
    let texts = [
      "", "x", #"{"type":"test","realm_name":"Zürich 🚀"}"#, String(repeating: "long ", count: 800),
    ]
    return .array(
      texts.flatMap { text -> [JSON] in
        let pair = BouncerKeyPair()
        let pushKey = PushKey.generate()
        guard let box = SealedBox.seal(Array(text.utf8), to: pair.publicKey) else { return [] }
        return [
          [
            "kind": "sealed_box", "private_key": .string(pair.privateKeyBase64), "plaintext": .string(text),
            "sealed": .string(Base64.encode(box)),
          ],
          [
            "kind": "secret_box", "push_key": .string(pushKey.base64), "plaintext": .string(text),
            "sealed": .string(Base64.encode(pushKey.seal(Array(text.utf8)))),
          ],
          ["kind": "token_id", "token": .string(text), "token_id": .string(TokenID(token: text).base64)],
        ]
      })
  }

  private func opens(_ vector: JSON) throws -> Bool {
    func text(_ name: String) throws -> String {
      guard let text = vector[name]?.string else { throw Fault("a vector lacks \(name)") }
      return text
    }
    if let opens = opensNextcloud(vector) { return opens }
    if vector["kind"] == "token_id" {
      return TokenID(token: try text("token")).base64 == (try text("token_id"))
    }
    guard let sealed = Base64.decodeStrictly(try text("sealed")) else { return false }
    let opened =
      vector["kind"] == "sealed_box"
      ? BouncerKeyPair(privateKey: try text("private_key"))?.open(sealed)
      : PushKey(base64: try text("push_key"))?.open(sealed)
    return opened == Array(try text("plaintext").utf8)
  }
}

/// Test vectors for what Nextcloud servers, phones and push proxies sign and encrypt for each other
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

  /// Returns nil for another kind of vector.
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
