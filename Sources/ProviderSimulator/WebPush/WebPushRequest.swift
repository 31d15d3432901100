import Crypto
import Foundation
import NIOCore
import NIOHPACK

/// A request to deliver a push message, read as strictly as RFC 8030 and 8291 are written.
struct WebPushRequest {
  /// A push service may refuse more (RFC 8291 4).
  static let maximumBody = 4096
  /// Nothing is kept for longer: four weeks, as at Mozilla and Google.
  static let maximumTTL = 28 * 86400

  /// For how many seconds the message is kept, as granted.
  let timeToLive: Int
  /// Messages with the same one replace each other.
  let topic: String?

  init(_ request: Request) throws(Refusal) {
    guard request.body.readableBytes <= Self.maximumBody else {
      throw .webPush(
        413, "PayloadTooLarge",
        "the body has \(request.body.readableBytes) bytes, \(Self.maximumBody) are allowed")
    }
    timeToLive = try Self.timeToLive(request.headers)
    if let urgency = try Self.field("urgency", in: request.headers),
      !["very-low", "low", "normal", "high"].contains(urgency)
    {
      throw .webPush(400, "InvalidUrgency", "Urgency is very-low, low, normal or high (RFC 8030 5.3)")
    }
    topic = try Self.field("topic", in: request.headers)
    if let topic, topic.wholeMatch(of: /[A-Za-z0-9_-]{1,32}/) == nil {
      throw .webPush(400, "InvalidTopic", "Topic has 1 to 32 characters of base64url (RFC 8030 5.4)")
    }
    guard try Self.field("content-encoding", in: request.headers)?.lowercased() == "aes128gcm" else {
      throw .webPush(400, "InvalidContentEncoding", "Content-Encoding must be aes128gcm (RFC 8291 4)")
    }
    try Self.checkFrame(request.body)
  }

  private static func field(_ name: String, in headers: HPACKHeaders) throws(Refusal) -> String? {
    let values = headers[name]
    guard values.count <= 1 else { throw .webPush(400, "DuplicateHeader", "\(name) is there more than once") }
    return values.first
  }

  private static func timeToLive(_ headers: HPACKHeaders) throws(Refusal) -> Int {
    guard let text = try field("ttl", in: headers) else {
      throw .webPush(400, "MissingTTL", "TTL is missing (RFC 8030 5.2)")
    }
    guard !text.isEmpty, text.utf8.count <= 100,
      text.utf8.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) })
    else { throw .webPush(400, "InvalidTTL", "TTL is a whole number of seconds from 0 on (RFC 8030 5.2)") }
    return min(Int(text) ?? .max, maximumTTL)
  }

  /// The header of the encrypted body and its one record (RFC 8188 2.1, RFC 8291 4).
  private static func checkFrame(_ body: ByteBuffer) throws(Refusal) {
    func malformed(_ message: String) -> Refusal { .webPush(400, "InvalidEncryption", message) }
    var body = body
    guard body.readSlice(length: 16) != nil, let recordSize = body.readInteger(as: UInt32.self),
      let length = body.readInteger(as: UInt8.self), let key = body.readBytes(length: Int(length))
    else { throw malformed("the body ends within the header: 16 bytes of salt, 4 of rs, 1 of idlen, keyid") }
    guard recordSize >= 18 else { throw malformed("rs is \(recordSize), 18 is the least (RFC 8188 2.1)") }
    guard key.count == 65, key[0] == 4, (try? P256.KeyAgreement.PublicKey(x963Representation: key)) != nil
    else {
      throw malformed("keyid is no uncompressed point on P-256 (RFC 8291 4)")
    }
    // The delimiter and the tag are there even where there is no plaintext.
    guard body.readableBytes >= 17 else { throw malformed("the record is cut short") }
    guard body.readableBytes < recordSize else {
      throw malformed(
        "rs must be greater than the one record, which has \(body.readableBytes) bytes (RFC 8291 4)")
    }
  }
}
