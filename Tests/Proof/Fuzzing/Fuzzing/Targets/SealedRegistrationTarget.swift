import Basics
import Foundation
import Providers

@testable import HTTP
@testable import Registrations
@testable import Sealing
@testable import ZulipBouncer

/// A phone's sealed registration: the bytes are read as the plaintext, as the sealed box, and as its base64.
enum SealedRegistrationTarget: FuzzTarget {
  static let name = "sealed-registration"

  private static let pair = BouncerKeyPair()
  private static let ring = BouncerKeyring([.init(pair: pair, state: .active)])
  private static let publicKey = pair.publicKeyBase64

  static func run(_ bytes: [UInt8]) throws {
    guard let box = SealedBox.seal(bytes, to: pair.publicKey) else {
      throw BrokenProperty(description: "anything can be sealed")
    }
    try check(box.count == bytes.count + SealedBox.overhead, "a box is 48 bytes longer")
    try check(
      try? ring.open(Base64.encode(box), publicKey: publicKey), is: bytes, "a box opens to what was sealed")
    var altered = box
    altered[bytes.count % box.count] ^= 1 << UInt8(bytes.count % 8)
    try check(pair.open(altered) == nil, "an altered box does not open")
    try check(pair.open(bytes) == nil, "nobody makes a box without the key")
    let text = String(decoding: bytes, as: UTF8.self)
    try check(
      (try? ring.open(text, publicKey: publicKey)) == nil, "nobody makes a box's base64 without the key")
    try check((try? ring.open(text, publicKey: text)) == nil, "no other key opens")
    try checkBase64(text, bytes)
    if let registration = PushRegistration(bytes) {
      let token = registration.token
      try check(
        (try? PushToken(token.text, kind: token.kind))?.text == token.text, "a token reads as it is written")
      try check((registration.iosAppID == nil) == (token.kind == .fcm), "an app id is Apple's")
      _ = registration.isExpired(at: Date(timeIntervalSince1970: 1_700_000_000))
      _ = token.id.base64
    }
  }

  private static func checkBase64(_ text: String, _ bytes: [UInt8]) throws {
    try check(Base64.decodeStrictly(Base64.encode(bytes)), is: bytes, "base64 reads as it is written")
    if let decoded = Base64.decodeStrictly(text) {
      try check(Base64.encode(decoded).hasBytes(of: text), "one text stands for some bytes")
    }
    if let id = TokenID(base64: text) {
      try check(id.base64.hasBytes(of: text), "a token's id reads as it is written")
    }
  }
}
