import ArgumentParser
import Foundation
import HTTP
import Operations
import Sealing

/// `vectors`: seals values for other implementations to open, and opens what they have sealed.
struct Vectors: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Makes sealed test vectors, or checks those of another implementation.", shouldDisplay: false)

  @Option(help: "A JSON file with vectors to check.") var check: String?
  @Flag(help: "Makes those of Nextcloud instead.") var nextcloud = false

  func run() throws {
    guard let check else { return tell((nextcloud ? makeNextcloud() : make()).text) }
    try FileOwner.become(ofWaysTo: [check])
    guard case .array(let vectors) = try JSON.parse(Data(contentsOf: URL(fileURLWithPath: check))) else {
      throw CommandError("\(check) is no array of vectors")
    }
    for (index, vector) in vectors.enumerated() where try !opens(vector) {
      throw CommandError("vector \(index) does not open")
    }
    tell("\(vectors.count) vectors open")
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
      guard let text = vector[name]?.string else { throw CommandError("a vector lacks \(name)") }
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
