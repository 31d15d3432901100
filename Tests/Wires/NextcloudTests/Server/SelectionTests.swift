import Foundation
import HTTP
import NextcloudProxy
import Registrations
import Sealing
import Testing

@testable import NextcloudServer

/// A phone with the vectors' device key.
func phone(
  _ id: Int64, _ kind: NextcloudApp.Kind, key: String? = nil
) throws -> NextcloudRegistration {
  NextcloudRegistration(
    id: id,
    description: .init(
      user: 1, appPassword: id, deviceIdentifier: "device-\(id)",
      deviceKey: try key ?? Vectors.load().devicePublicKey, pushTokenHash: "hash-\(id)",
      proxyServer: "https://push.example.org/", appKind: kind),
    registeredAt: Date(timeIntervalSince1970: 1))
}

/// `Documentation/Protocols/Nextcloud.md` 6.3.
@Suite struct SelectionTests {
  private typealias Kind = NextcloudApp.Kind

  /// The devices, by their number, that a message comes to.
  private func devices(
    _ message: NextcloudMessage, apps: [Int64: String] = [:], among kinds: Kind...
  ) async throws -> [Int64] {
    let phones = try kinds.enumerated().map { try phone(Int64($0), $1) }
    let maker = PushMaker(
      padding: .oaep, userKey: try RSAPrivateKey(pem: Vectors.load().userPrivateKey))
    let made = await maker.pushes(of: message, apps: apps, to: phones)
    #expect(made.devices == Set(made.pushes.map(\.registration)).count)
    return made.pushes.map(\.registration)
  }

  private func notification(_ app: String) -> NextcloudMessage {
    .notification(.init(nid: 1, app: app, subject: "", type: "", id: ""))
  }

  @Test(arguments: ["spreed", "talk", "admin_notification_talk"])
  func `Talk's notifications go to Talk, or to the others where there is none`(app: String) async throws {
    #expect(try await devices(notification(app), among: .files, .talk, .other, .talk) == [1, 3])
    #expect(try await devices(notification(app), among: .files, .other) == [0, 1])
  }

  @Test func `others' notifications never go to Talk`() async throws {
    #expect(try await devices(notification("files"), among: .files, .talk, .other) == [0, 2])
    #expect(try await devices(notification("files"), among: .talk) == [])
  }

  @Test func `a user with twenty phones and more gets every one`() async throws {
    let phones = try (1...25).map { try phone($0, .files) }
    let maker = PushMaker(padding: .oaep, userKey: try RSAPrivateKey(pem: Vectors.load().userPrivateKey))
    #expect(await maker.pushes(of: notification("files"), apps: [:], to: phones).devices == 25)
  }

  @Test func `that all are gone concerns every phone`() async throws {
    #expect(try await devices(.deletionOfAll, among: .files, .talk, .other) == [0, 1, 2])
  }

  @Test func `deletions follow the app, together only for Talk`() {
    func contents(_ app: String?, _ kind: Kind, hasTalk: Bool, apps: [Int64: String] = [:]) -> [String] {
      PushMaker.contents(
        of: .deletion(nids: [1, 2, 3], app: app), apps: apps, for: kind, hasTalk: hasTalk
      ).map { content in
        guard case .deletion(let plaintext) = content else { return "?" }
        return String(decoding: plaintext, as: UTF8.self)
      }
    }
    let together = [#"{"nids":[1,2,3],"delete-multiple":true}"#]
    let alone = (1...3).map { #"{"nid":\#($0),"delete":true}"# }
    #expect(contents("spreed", .talk, hasTalk: true) == together)
    #expect(contents("spreed", .files, hasTalk: true) == [])
    #expect(contents("spreed", .files, hasTalk: false) == together)
    #expect(contents("files", .files, hasTalk: true) == alone)
    #expect(contents("files", .talk, hasTalk: true) == [])
    // Without an app: that of the notification, else the phone's.
    #expect(contents(nil, .talk, hasTalk: true) == together)
    #expect(contents(nil, .other, hasTalk: true) == alone)
    let apps: [Int64: String] = [1: "spreed", 2: "files"]
    #expect(
      contents(nil, .talk, hasTalk: true, apps: apps) == [#"{"nids":[1,3],"delete-multiple":true}"#])
    #expect(contents(nil, .files, hasTalk: true, apps: apps) == Array(alone[1...]))
  }

  @Test func `a phone whose key is none is told apart and spoils nothing for the others`() async throws {
    let shaped = Data(repeating: 1, count: 294).base64EncodedString(options: .lineLength64Characters)
    let broken = try phone(
      1, .files,
      key: "-----BEGIN PUBLIC KEY-----\n\(shaped.replacing("\r", with: ""))\n-----END PUBLIC KEY-----\n")
    let maker = PushMaker(padding: .oaep, userKey: try RSAPrivateKey(pem: Vectors.load().userPrivateKey))
    let made = await maker.pushes(
      of: notification("files"), apps: [:], to: [broken, try phone(2, .files)])
    #expect(made.broken.map(\.id) == [1])
    #expect(made.pushes.map(\.registration) == [2])
    #expect(made.devices == 1)
  }

  private func read(_ text: String) throws -> NextcloudMessage {
    try NextcloudMessage(Field(try JSON.parse(text), path: "request[\"nextcloud\"]"))
  }

  @Test func `a message is read from the backend's call`() throws {
    #expect(
      try read(#"{"nid":1,"app":"spreed","subject":"s","type":"chat","id":"x"}"#)
        == .notification(.init(nid: 1, app: "spreed", subject: "s", type: "chat", id: "x")))
    #expect(
      try read(#"{"nid":1,"app":"spreed","subject":"s"}"#)
        == .notification(.init(nid: 1, app: "spreed", subject: "s", type: "", id: "")))
    #expect(try read(#"{"delete_nids":[1,2]}"#) == .deletion(nids: [1, 2], app: nil))
    #expect(try read(#"{"delete_nids":[1],"app":"talk"}"#) == .deletion(nids: [1], app: "talk"))
    #expect(try read(#"{"delete_all":true}"#) == .deletionOfAll)
  }

  @Test(arguments: [
    (#"{}"#, #"request["nextcloud"]["nid"] field is missing"#),
    (#"{"nid":"1","app":"a","subject":""}"#, #"request["nextcloud"]["nid"] is not an integer"#),
    (
      #"{"nid":-1,"app":"a","subject":""}"#,
      #"request["nextcloud"]["nid"] is not a whole number from 0 to 9007199254740991"#
    ),
    (
      #"{"nid":1,"app":"a/b","subject":""}"#,
      #"request["nextcloud"]["app"] is not 1 to 64 letters, digits and _ - ."#
    ),
    (#"{"nid":1,"app":"a"}"#, #"request["nextcloud"]["subject"] field is missing"#),
    (
      #"{"delete_nids":[]}"#,
      #"request["nextcloud"]["delete_nids"] is not a list of 1 to 1000 numbers"#
    ),
    (#"{"delete_nids":[true]}"#, #"request["nextcloud"]["delete_nids"][0] is not an integer"#),
    (#"{"delete_all":false}"#, #"request["nextcloud"]["delete_all"] is not true"#),
    (
      #"{"delete_all":true,"nid":1}"#,
      #"Argument "nid" at request["nextcloud"]["nid"] is unexpected"#
    ),
  ])
  func `what is wrong with a message is told with its place`(text: String, message: String) {
    #expect { try read(text) } throws: { ($0 as? APIError)?.message == message }
  }
}
