import Foundation
import Providers
import Sealing
import Testing

@testable import ZulipServer

/// `Documentation/Protocols/Zulip.md` 10.4, branch by branch, as a state machine.
@Suite struct DeviceTests {
  private static let now = Date(timeIntervalSince1970: 1_790_000_000.9)
  private static let first = TokenID(token: "first")
  private static let second = TokenID(token: "second")
  private static let key = PushKey.generate()

  private static func device() -> Device { Device(id: 1, user: 1, state: .init(), pushKey: nil, kind: nil) }

  private static func key(_ id: UInt32 = 10, _ key: PushKey? = key) -> DeviceRegistration.Key {
    .init(id: id, key: key)
  }

  private static func token(_ id: TokenID? = first, _ kind: PushToken.Kind = .apns)
    -> DeviceRegistration.Token
  {
    .init(kind: kind, id: id, bouncerPublicKey: "key", sealed: "sealed")
  }

  /// One whose first token the bouncer has accepted.
  private static func registered() throws -> Device {
    var device = device()
    _ = try device.register(.init(key: key(), token: token()), now: now)
    _ = device.accepted(first)
    return device
  }

  @Test func `A first registration waits for the bouncer, and is active when it has accepted`() throws {
    var device = Self.device()
    let changed = try device.register(.init(key: Self.key(), token: Self.token()), now: Self.now)
    #expect(changed == [.pushKeyID, .pendingTokenID, .tokenUpdatedAt, .error])
    #expect(device.state.pushKeyID == 10)
    #expect(device.pushKey == Self.key)
    #expect(device.kind == .apns)
    #expect(device.state.pendingTokenID == Self.first)
    #expect(device.state.tokenID == nil)
    #expect(device.state.tokenUpdatedAt == Date(timeIntervalSince1970: 1_790_000_000))
    #expect(device.accepted(Self.first) == [.tokenID, .pendingTokenID])
    #expect(device.state.tokenID == Self.first)
    #expect(device.state.pendingTokenID == nil)
  }

  @Test func `A key alone is rotated at any time, but only where there is one`() throws {
    var device = Self.device()
    #expect(throws: DeviceError.noKeyToRotate) {
      try device.register(.init(key: Self.key(), token: nil), now: Self.now)
    }
    // That there is nothing to rotate is told before the key is looked at.
    #expect(throws: DeviceError.noKeyToRotate) {
      try device.register(.init(key: Self.key(10, nil), token: nil), now: Self.now)
    }
    _ = try device.register(.init(key: Self.key(), token: Self.token()), now: Self.now)
    let new = PushKey.generate()
    #expect(try device.register(.init(key: Self.key(11, new), token: nil), now: Self.now) == .pushKeyID)
    #expect((device.state.pushKeyID, device.pushKey) == (11, new))
    #expect(device.state.pendingTokenID == Self.first)
    #expect(throws: DeviceError.invalidPushKey) {
      try device.register(.init(key: Self.key(12, nil), token: nil), now: Self.now)
    }
    #expect(try device.register(.init(key: Self.key(11, new), token: nil), now: Self.now) == [])
    // Another key under the same id is another key.
    #expect(try device.register(.init(key: Self.key(11), token: nil), now: Self.now) == .pushKeyID)
    #expect(device.pushKey == Self.key)
  }

  @Test func `Neither a key nor a token is nothing`() {
    var device = Self.device()
    #expect(throws: DeviceError.nothingToDo) {
      try device.register(.init(key: nil, token: nil), now: Self.now)
    }
  }

  @Test func `While the bouncer has not answered no other token is taken, not even the same`() throws {
    var device = Self.device()
    _ = try device.register(.init(key: Self.key(), token: Self.token()), now: Self.now)
    for token in [Self.token(), Self.token(Self.second), Self.token(nil)] {
      for key in [nil, Self.key(), Self.key(12, nil)] {
        #expect(throws: DeviceError.inProgress) {
          try device.register(.init(key: key, token: token), now: Self.now)
        }
      }
    }
  }

  @Test func `A token id that is none is told before anything about the key`() {
    var device = Self.device()
    for key in [nil, Self.key(10, nil)] {
      #expect(throws: DeviceError.invalidTokenID) {
        try device.register(.init(key: key, token: Self.token(nil)), now: Self.now)
      }
    }
    #expect(throws: DeviceError.noKeyForToken) {
      try device.register(.init(key: nil, token: Self.token()), now: Self.now)
    }
    #expect(throws: DeviceError.invalidPushKey) {
      try device.register(.init(key: Self.key(10, nil), token: Self.token()), now: Self.now)
    }
    #expect(device.state == .init() && device.pushKey == nil && device.kind == nil)
  }

  @Test func `A new token leaves the old one in use until the bouncer has accepted it`() throws {
    var device = try Self.registered()
    let changed = try device.register(.init(key: nil, token: Self.token(Self.second)), now: Self.now + 5)
    #expect(changed == [.pendingTokenID, .tokenUpdatedAt, .error])
    #expect((device.state.tokenID, device.state.pendingTokenID) == (Self.first, Self.second))
    // An answer about another token is none about this one.
    #expect(device.accepted(Self.first) == [])
    #expect(device.refused(Self.first, .badRequest) == [])
    #expect(device.accepted(Self.second) == [.tokenID, .pendingTokenID])
    #expect(device.state.tokenID == Self.second)
  }

  @Test func `What is known is known, and nothing happens`() throws {
    var device = try Self.registered()
    #expect(try device.register(.init(key: nil, token: Self.token()), now: Self.now) == [])
    #expect(try device.register(.init(key: Self.key(), token: Self.token()), now: Self.now) == [])
    #expect(device.state.pendingTokenID == nil)
  }

  @Test(arguments: [true, false]) func `The same token counts anew after thirty days`(withKey: Bool) throws {
    var device = try Self.registered()
    let key = withKey ? Self.key() : nil
    let almost = Date(timeIntervalSince1970: 1_790_000_000) + 30 * 86_400 - 1
    #expect(try device.register(.init(key: key, token: Self.token()), now: almost) == [])
    let changed = try device.register(.init(key: key, token: Self.token()), now: almost + 1)
    #expect(changed.isSuperset(of: [.pendingTokenID, .tokenUpdatedAt, .error]))
    #expect(device.state.tokenUpdatedAt == almost + 1)
    // It gets notifications meanwhile.
    #expect(device.state.tokenID == Self.first)
  }

  @Test(
    arguments: [(11, false, .apns), (10, true, .apns), (10, false, .fcm)] as [(UInt32, Bool, PushToken.Kind)])
  func `The same token with another key, or of another kind, is registered`(
    keyID: UInt32, withNewKey: Bool, kind: PushToken.Kind
  ) throws {
    var device = try Self.registered()
    let key = withNewKey ? Self.key(keyID, .generate()) : Self.key(keyID)
    let changed = try device.register(.init(key: key, token: Self.token(Self.first, kind)), now: Self.now)
    #expect(changed == [.pushKeyID, .pendingTokenID, .tokenUpdatedAt, .error])
  }

  @Test(arguments: [Device.RegistrationError.badRequest, .requestExpired, .invalidBouncerPublicKey])
  func `A refusal stays to be seen until the client sends a token again`(error: Device.RegistrationError)
    throws
  {
    var device = try Self.registered()
    _ = try device.register(.init(key: nil, token: Self.token(Self.second)), now: Self.now)
    #expect(device.refused(Self.second, error) == .error)
    #expect((device.state.error, device.state.pendingTokenID) == (error, Self.second))
    #expect(device.state.tokenID == Self.first)
    // What comes late changes nothing.
    #expect(device.accepted(Self.second) == [])
    #expect(device.refused(Self.second, .badRequest) == [])
    // Even the token that is in use is registered again: the client must have had a reason.
    #expect(try device.register(.init(key: nil, token: Self.token()), now: Self.now).contains(.error))
    #expect((device.state.error, device.state.pendingTokenID) == (nil, Self.first))
  }

  @Test func `A token that the bouncer has lost goes, if it is still the one`() throws {
    var device = try Self.registered()
    #expect(device.lost(Self.second) == [])
    #expect(device.lost(Self.first) == .tokenID)
    #expect(device.state.tokenID == nil)
    #expect(
      try device.register(.init(key: nil, token: Self.token()), now: Self.now).contains(.pendingTokenID))
  }
}
