import Basics
import Foundation
import HTTP
import HTTPTypes
import Registrations
import SQL
import Sealing
import Synchronization
import TestService
import TestSupport
import Testing

@testable import ZulipServer

/// `POST mobile_push/register`, and what the bouncer makes of it (`Documentation/Protocols/Zulip.md` 10.4 and
/// 10.5).
@Suite struct RegisterTests {
  private var chat: Chat { Fixture.current }

  @Test(
    arguments: [
      (400, "INVALID_BOUNCER_PUBLIC_KEY", .invalidBouncerPublicKey),
      (400, "REQUEST_EXPIRED", .requestExpired),
      (400, "BAD_REQUEST", .badRequest), (404, "BAD_REQUEST", .badRequest),
      (403, "SOMETHING_NEW", .badRequest),
      (403, "MISSING_REMOTE_REALM", nil), (403, "REMOTE_REALM_SERVER_MISMATCH_ERROR", nil),
      (401, "UNAUTHORIZED", nil), (400, "INVALID_ZULIP_SERVER", nil),
      (400, "PUSH_NOTIFICATIONS_DISALLOWED", nil), (429, "RATE_LIMIT_HIT", nil), (408, "BAD_REQUEST", nil),
      (503, "SERVICE_UNAVAILABLE", nil),
    ] as [(Int, String, Device.RegistrationError?)])
  func `Only what trying again would not change ends a registration`(
    status: Int, code: String, error: Device.RegistrationError?
  ) {
    let told = BouncerError(status: status, code: code, message: "no", retryAfter: nil)
    #expect(told.registrationError == error)
    // What has no words of the bouncer's comes from something in between.
    #expect(
      BouncerError(status: status, code: code, message: nil, retryAfter: nil).registrationError == nil)
  }

  @Test(arguments: [
    ("600", 600.0), ("600.5", 600.5), ("Mon, 21 Sep 2026 14:23:20 GMT", 600), ("86400", 3600), ("soon", 0),
  ])
  func `The next try comes when the bouncer wants it, after an hour at most`(text: String, wait: Double) {
    let error = BouncerError(status: 429, code: nil, message: nil, retryAfter: text)
    // Its own pause, of two seconds at most, comes on top.
    let pause = error.pause(
      after: 1, Backoff(first: 2, longest: 900), now: Date(timeIntervalSince1970: 1_790_000_000))
    #expect((wait...min(wait + 2, 3600)).contains(pause))
  }

  @Test(
    .chat,
    arguments: [
      (403, #"{"result":"error","msg":"?","code":"MISSING_REMOTE_REALM"}"#),
      (429, #"{"result":"error","msg":"?","cause":"MISSING_REMOTE_REALM","code":"RATE_LIMIT_HIT"}"#),
    ])
  func `An upload of the realms that fails in passing puts the registration off, too`(answer: (Int, String))
    async throws
  {
    chat.wire.answer(503, "", retryAfter: "600")
    let client = try await chat.user()
    let device = try await client.addDevice()
    chat.wire.answer { call in
      call.endpoint == "server/analytics"
        ? (503, "") : answer
    }
    try await client.register(device, token: "a")
    try await eventually("put off") {
      guard let pause = try await chat.pause(in: "device_registrations") else { return false }
      return (600...602).contains(pause)
    }
  }

  @Test(.chat) func `After a day without the bouncer it has expired, and the device is free again`()
    async throws
  {
    chat.wire.answer(500, "")
    let client = try await chat.user()
    let device = try await client.addDevice()
    try await client.register(device, token: "a")
    chat.clock.advance(86_400)
    // The first try's pause may be counted from this clock already: time goes on until it is over.
    try await client.waitUntil(device, "expired") {
      chat.clock.advance(60)
      return $0.error == .requestExpired
    }
    #expect(try await chat.devices.jobs.count() == 0)
    chat.wire.answer(200, #"{"result":"success","msg":""}"#)
    try await client.register(device, token: "a")
    try await client.waitUntil(device, "active") { $0.tokenID == TokenID(token: "a") }
  }

  @Test(.chat)
  func `While the clock may be wrong no registration expires, and none waits for a time that was wrong`()
    async throws
  {
    chat.wire.answer(500, "")
    let client = try await chat.user()
    let device = try await client.addDevice()
    try await client.register(device, token: "a")
    let tries = { chat.wire.calls("push/e2ee/register").count }
    try await client.waitUntil(device, "tried") { _ in tries() > 0 }
    var ahead: TimeInterval = 25 * 3600
    chat.clock.jump(ahead)
    let before = tries()
    // The first try's pause may be counted from this clock already: time goes on until it is over.
    try await client.waitUntil(device, "tried again") { _ in
      chat.clock.jump(60)
      ahead += 60
      return tries() > before
    }
    #expect(try await chat.devices.snapshot(user: client.user.id).devices.first?.state.error == nil)
    // The clock is right again: the next try is a day ahead.
    chat.clock.jump(-ahead)
    try await chat.test.trustClock()
    try await chat.devices.jobs.bringForward()
    chat.wire.answer(200, #"{"result":"success","msg":""}"#)
    // A try under way was made by the wrong clock still.
    try await client.waitUntil(device, "active") {
      try await chat.devices.jobs.bringForward()
      return $0.tokenID == TokenID(token: "a")
    }
  }
}
