import HTTP
import NIOCore
import Providers
import Sealing
import Testing

@testable import ZulipBouncer
@testable import ZulipServer

@Suite struct NotificationTests {
  @Test func `A removal tells of the newest 200 messages`() throws {
    let key = PushKey.generate()
    let ids = (1...250).map { JSON.integer(Int64($0)) }.shuffled()
    let notification = try PlainNotification(
      ["type": "remove", "message_ids": .array(ids)], removal: .removal)
    var device = Device(id: 1, user: 1, state: .init(), pushKey: key, kind: .apns)
    (device.state.pushKeyID, device.state.tokenID) = (1, TokenID(token: "c0ffee"))
    let item = try #require(notification.sealed(for: device))
    let sealed = try #require(Base64.decodeStrictly(item.encryptedData))
    let opened = try JSON.parse(try #require(key.open(sealed)))
    #expect(opened["message_ids"] == .array((51...250).map { .integer($0) }))
    #expect(notification.sealed(for: device)?.encryptedData != item.encryptedData)
  }

  @Test func `What is as large as may be is as large as a provider takes`() throws {
    let around = JSON.object(["content": ""]).bytes.count
    func notification(_ count: Int) throws -> PlainNotification {
      try PlainNotification(
        ["content": .string(String(repeating: "x", count: count - around))], removal: .removal)
    }
    var device = Device(id: 1, user: 1, state: .init(), pushKey: .generate(), kind: .apns)
    (device.state.pushKeyID, device.state.tokenID) = (.max, TokenID(token: "c0ffee"))
    let largest = try notification(PlainNotification.maximumBytes).sealed(for: device)
    #expect(try #require(largest).payload.readableBytes <= 4096)
    #expect(throws: APIError.self) { try notification(PlainNotification.maximumBytes + 1) }
  }
}
