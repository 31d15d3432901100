import Foundation
import NIOCore
import TestSupport

@testable import Providers

extension WebPushPhone {
  func subscription(_ endpoint: String) throws -> WebPushSubscription {
    try WebPushSubscription(endpoint: endpoint, p256dh: publicKey, auth: auth)
  }

  func open(_ body: ByteBuffer) throws -> String {
    String(decoding: try open([UInt8](body.readableBytesView)), as: UTF8.self)
  }

  static func bytes(_ text: some StringProtocol) -> Data? {
    let text = text.map { $0 == "-" ? "+" : $0 == "_" ? "/" : $0 }
    return Data(base64Encoded: String(text) + String(repeating: "=", count: (4 - text.count % 4) % 4))
  }
}
