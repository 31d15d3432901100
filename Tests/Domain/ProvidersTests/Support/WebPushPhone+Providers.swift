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
}
