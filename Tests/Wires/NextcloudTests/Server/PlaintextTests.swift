import Foundation
import HTTP
import NextcloudProxy
import Registrations
import Sealing
import Testing

@testable import NextcloudServer

/// `Documentation/Protocols/Nextcloud.md` 6.2, 6.4.
@Suite struct PlaintextTests {
  private func text(_ bytes: [UInt8]) -> String { String(decoding: bytes, as: UTF8.self) }

  private func notification(
    _ subject: String, app: String = "spreed", type: String = "chat", id: String = "t0k3n", nid: Int64 = 1337
  ) -> NextcloudNotification {
    .init(nid: nid, app: app, subject: subject, type: type, id: id)
  }

  /// The subject as a phone reads it, without the mark of the cut.
  private func subject(of plaintext: [UInt8]) throws -> (kept: String, isCut: Bool) {
    let subject = try #require(try JSON.parse(plaintext)["subject"]?.string)
    return subject.hasSuffix("…") ? (String(subject.dropLast()), true) : (subject, false)
  }

  @Test func `every plaintext of the vectors comes out byte for byte`() throws {
    let vectors = try Vectors.load()
    func expected(_ name: String) throws -> String { try #require(vectors.notifications[name]).plaintext }
    func made(_ notification: NextcloudNotification) -> String {
      text(PushPlaintext.notification(notification, limit: 214))
    }
    let chat = notification("Test mentioned you in a private conversation")
    #expect(made(chat) == (try expected("chat-oaep")))
    #expect(made(chat) == (try expected("chat-pkcs1")))
    #expect(made(notification("Alice is calling", type: "call", nid: 1338)) == (try expected("call-voip")))
    let share = notification(
      "Bob shared report.pdf with you", app: "files_sharing", type: "remote_share", id: "12", nid: 1339)
    #expect(made(share) == (try expected("files-share")))
    #expect(
      PushPlaintext.deletions([1337], together: true).map(text) == [try expected("delete-single")])
    #expect(
      PushPlaintext.deletions(Array(1001...1010), together: true).map(text)
        == [try expected("delete-multiple")])
    #expect(text(PushPlaintext.deletionOfAll) == (try expected("delete-all")))
  }

  @Test(
    arguments: [
      ("a", 300, 131), ("ü", 300, 21), ("😀", 300, 6), ("ü", 100, 20), ("😀", 100, 10), ("a", 131, 131),
      ("a", 132, 131), ("/", 300, 61),
    ])
  func `a subject is cut as Nextcloud cuts it`(character: String, count: Int, left: Int) throws {
    // Everything but the subject is 67 bytes.
    let rest = notification("", app: "spreed", type: "chat", id: "t0k3n")
    #expect(PushPlaintext.notification(rest, limit: 214).count == 67)
    let plaintext = PushPlaintext.notification(
      notification(String(repeating: character, count: count)), limit: 214)
    let (kept, isCut) = try subject(of: plaintext)
    #expect(kept.unicodeScalars.count == left)
    #expect(isCut == (left < count))
    #expect(plaintext.count <= 204)
  }

  @Test func `a subject is never cut to something longer than RSA encrypts`() throws {
    for (app, type, id) in [
      ("a", "b", "c"), (String(repeating: "a", count: 32), String(repeating: "b", count: 64), "c"),
      (
        String(repeating: "a", count: 32), String(repeating: "b", count: 64),
        String(repeating: "c", count: 64)
      ),
      (
        String(repeating: "a", count: 64), String(repeating: "ü", count: 128),
        String(repeating: "😀", count: 64)
      ),
    ] {
      for subject in ["", "short", String(repeating: "x/ü😀", count: 100)] {
        let long = notification(
          subject, app: app, type: type, id: id, nid: NextcloudMessage.maximumNumber)
        let plaintext = PushPlaintext.notification(long, limit: 214)
        #expect(plaintext.count <= 214)
        #expect(try JSON.parse(plaintext)["app"]?.string == app)
      }
    }
  }

  @Test func `type and id go where they alone are too long, and the subject has their room`() throws {
    let long = notification(
      "Hello", app: "spreed", type: String(repeating: "b", count: 256), id: "c")
    #expect(
      text(PushPlaintext.notification(long, limit: 214))
        == #"{"nid":1337,"app":"spreed","subject":"Hello"}"#)
    // What PKCS#1 v1.5 has room for stays, without a subject.
    let fitting = notification("Hello", app: "spreed", type: String(repeating: "b", count: 150), id: "c")
    let plaintext = PushPlaintext.notification(fitting, limit: 245)
    #expect(try subject(of: plaintext) == ("", true))
    #expect(try JSON.parse(plaintext)["type"]?.string?.count == 150)
  }

  @Test func `deletions go by tens, the last of one alone in the form for one`() {
    func counts(_ count: Int64, together: Bool = true) -> [Int] {
      PushPlaintext.deletions(Array(1..<(count + 1)), together: together).map { plaintext in
        guard case .array(let nids)? = (try? JSON.parse(plaintext))?["nids"] else { return 1 }
        return nids.count
      }
    }
    #expect(counts(1) == [1])
    #expect(counts(2) == [2])
    #expect(counts(10) == [10])
    #expect(counts(11) == [10, 1])
    #expect(counts(21) == [10, 10, 1])
    #expect(counts(22) == [10, 10, 2])
    #expect(counts(3, together: false) == [1, 1, 1])
    #expect(
      text(PushPlaintext.deletions([1001, 1002], together: true)[0])
        == #"{"nids":[1001,1002],"delete-multiple":true}"#)
    let largest = PushPlaintext.deletions(
      Array(repeating: NextcloudMessage.maximumNumber, count: 10), together: true)
    #expect(largest.allSatisfy { $0.count <= 214 })
  }

  @Test(
    arguments: [
      ("spreed", "call", "high", "voip"), ("talk", "call", "high", "voip"),
      ("admin_notification_talk", "call", "high", "voip"), ("spreed", "chat", "high", "alert"),
      ("talk", "", "high", "alert"), ("admin_notification_talk", "admin_notifications", "high", "alert"),
      ("twofactor_nextcloud_notification", "x", "high", "alert"), ("phonetrack", "call", "high", "alert"),
      ("files_sharing", "remote_share", "normal", "alert"),
      ("admin_notifications", "call", "normal", "alert"),
    ])
  func `urgency is by app and type`(app: String, type: String, priority: String, pushType: String) {
    #expect(PushUrgency.notification(app: app, type: type) == .init(priority: priority, type: pushType))
    #expect(PushUrgency.deletion == .init(priority: "normal", type: "background"))
  }

  @Test func `JSON is escaped as PHP escapes it`() {
    let value: JSON = ["a/b": "\"\\/\u{8}\u{c}\n\r\t\u{1}\u{7f}ü…😀<>&'", "n": [1, true, nil]]
    #expect(
      text(value.php())
        == #"{"a\/b":"\"\\\/\b\f\n\r\t\u0001\#u{7f}\u00fc\u2026\ud83d\ude00<>&'","n":[1,true,null]}"#)
    #expect(text(JSON.string("<>").php(hexTags: true)) == #""\u003C\u003E""#)
  }

  @Test(arguments: [("a", 2931), ("ü", 486), ("😀", 241), ("/", 1461)])
  func `without a proxy a subject has room for 3,000 bytes`(character: String, left: Int) throws {
    let plaintext = PushPlaintext.webPush(notification(String(repeating: character, count: 20_000)))
    let (kept, isCut) = try subject(of: plaintext)
    #expect(kept.unicodeScalars.count == left)
    #expect(isCut && plaintext.count <= 3004)
    let short = notification(String(repeating: character, count: 100))
    #expect(try subject(of: PushPlaintext.webPush(short)).kept == short.subject)
  }

  @Test func `without a proxy no notification is longer than push services take`() throws {
    let worst = String(repeating: "\u{1}", count: 256)
    let plaintext = PushPlaintext.webPush(
      notification(
        String(repeating: "x", count: 65_536), app: String(repeating: "a", count: 64), type: worst, id: worst,
        nid: NextcloudMessage.maximumNumber))
    #expect(plaintext.count <= 3993)
    #expect(try JSON.parse(plaintext)["type"]?.string == worst)
  }
}

/// `Documentation/Protocols/Nextcloud.md` 2, 3.4, 6.1, 8.
@Suite struct EntryTests {
  @Test(
    arguments: [
      (0, "alice", "https://cloud.example.org", 23), (1, "alice", "https://cloud.example.org/nextcloud/", 42),
      (2, "jürgen", "http://cloud.example.org//", 7),
    ] as [(Int, String, String, Int64)])
  func `identifiers, preimages and signatures are those of the vectors`(
    index: Int, username: String, url: String, password: Int64
  ) throws {
    let vectors = try Vectors.load()
    let device = vectors.devices[index]
    let identity = DeviceIdentity(
      cloudID: DeviceIdentity.cloudID(of: username, at: url), appPassword: password)
    #expect(String(decoding: identity.preimage, as: UTF8.self) == device.preimage)
    #expect(identity.identifier == device.deviceIdentifier)
    let key = try RSAPrivateKey(pem: vectors.userPrivateKey)
    #expect(identity.signature(by: key) == device.deviceIdentifierSignature)
  }

  @Test func `entries and bodies are those of the vectors, given their ciphertexts`() throws {
    let vectors = try Vectors.load()
    let key = try RSAPrivateKey(pem: vectors.userPrivateKey)
    var entries: [String: String] = [:]
    for (name, notification) in vectors.notifications {
      let envelope = try JSON.parse(notification.envelopeJson)
      let device = try #require(
        vectors.devices.first { $0.deviceIdentifier == envelope["deviceIdentifier"]?.string })
      let plaintext = try JSON.parse(notification.plaintext)
      let urgency =
        plaintext["app"]?.string.map {
          PushUrgency.notification(app: $0, type: plaintext["type"]?.string ?? "")
        } ?? .deletion
      let ciphertext = try #require(envelope["subject"]?.string.flatMap(Base64.decodeStrictly))
      let phone = NextcloudRegistration.Description(
        user: 1, appPassword: 1, deviceIdentifier: device.deviceIdentifier,
        deviceKey: vectors.devicePublicKey, pushTokenHash: device.pushTokenHash, proxyServer: "",
        appKind: .talk)
      let entry = PushMaker.entry(
        for: phone, ciphertext: ciphertext, signature: key.sign(ciphertext), urgency: urgency)
      #expect(entry == notification.envelopeJson, "\(name)")
      entries[name] = entry
    }
    let body = NextcloudSender.form(["chat-oaep", "call-voip", "delete-all"].compactMap { entries[$0] })
    #expect(String(decoding: body, as: UTF8.self) == vectors.formBody)
  }

  @Test(arguments: [RSAPadding.oaep, .pkcs1])
  func `what is made for a phone opens with its key and is signed by its user`(padding: RSAPadding)
    async throws
  {
    let vectors = try Vectors.load()
    let user = try RSAPrivateKey(pem: vectors.userPrivateKey)
    let device = try RSAPrivateKey(pem: vectors.devicePrivateKey)
    let made = await PushMaker(padding: padding, userKey: user).pushes(
      of: .notification(.init(nid: 5, app: "spreed", subject: "Hi", type: "chat", id: "x")), apps: [:],
      to: [try phone(1, .talk)])
    let entry = try JSON.parse(try #require(made.pushes.first).entry)
    let ciphertext = try #require(entry["subject"]?.string.flatMap(Base64.decodeStrictly))
    let signature = try #require(entry["signature"]?.string.flatMap(Base64.decodeStrictly))
    #expect(user.publicKey.verifies(signature, of: ciphertext))
    let plaintext = try #require(device.decrypt(ciphertext, padding: padding))
    #expect(
      String(decoding: plaintext, as: UTF8.self)
        == #"{"nid":5,"app":"spreed","subject":"Hi","type":"chat","id":"x"}"#)
  }
}
