import Foundation
import Registrations
import Synchronization
import Testing

@testable import NextcloudProxy

@Suite("The apps of Nextcloud")
struct NextcloudAppsTests {
  private static let hex = String(repeating: "A1", count: 32)
  private static let pair = "\(hex) \(hex)"
  private static let fcm = "dQw4w9WgXcQ:APA91bHun4MxP5egoKMwt2KZFBaFUH-1RYqx_synthetic"
  private static let installationID = "cR7dQw4w9WgXcQ-_AbCd09"

  @Test(
    arguments: [
      ("Mozilla/5.0 (iOS) Nextcloud-Talk v21.0.0", hex, .apns, "Talk for iOS"),
      ("Mozilla/5.0 (iOS) Nextcloud-Talk v21.0.0 (Strict VoIP)", pair, .apns, "Talk for iOS"),
      ("Mozilla/5.0 (iOS) Nextcloud-Talk v8 (PushKit)", hex, .pushKit, "Talk for iOS"),
      ("Mozilla/5.0 (iOS) Nextcloud-Talk v8 (PushKit)", pair, .apns, "Talk for iOS"),
      ("Mozilla/5.0 (iOS) Nextcloud-Talk v21.0.0", fcm, nil, "Talk for iOS"),
      ("Mozilla/5.0 (iOS) Nextcloud-Talk v21.0.0", installationID, nil, "Talk for iOS"),
      ("Mozilla/5.0 (Android) Nextcloud-Talk v21.0.0", installationID, .fcm, "Talk for Android"),
      ("Mozilla/5.0 (iOS) Nextcloud-iOS/6.0.0  (Strict VoIP)", hex, .apns, "Files for iOS"),
      ("Mozilla/5.0 (iOS) ownCloud-iOS/1", hex, .apns, "Files for iOS"),
      ("Mozilla/5.0 (Android) Nextcloud-Talk v21.0.0", fcm, .fcm, "Talk for Android"),
      ("Mozilla/5.0 (Android) Nextcloud-Talk v21.0.0", hex, .fcm, "Talk for Android"),
      ("Mozilla/5.0 (Android) Nextcloud-Talk v21.0.0", pair, nil, "Talk for Android"),
      ("Mozilla/5.0 (Android) Nextcloud-android/3.30", fcm, .fcm, "Files for Android"),
      ("Mozilla/5.0 (Android) ownCloud-android/2", fcm, .fcm, "Files for Android"),
      ("curl/8", fcm, nil, nil), ("curl/8", pair, nil, nil), ("curl/8", hex, nil, nil),
      ("My Talk", hex, nil, nil), ("Mozilla/5.0 (Android) Brand", hex, nil, nil), ("", fcm, nil, nil),
      (String(repeating: "\u{301}", count: 5000) + " (iOS) Nextcloud-Talk", hex, nil, nil),
    ] as [(String, String, NextcloudDevice.Destination.Kind?, String?)])
  func `are told by what they call themselves, and by nothing else`(
    userAgent: String, token: String, kind: NextcloudDevice.Destination.Kind?, name: String?
  ) throws {
    let app = NextcloudApps().app(of: [userAgent])
    #expect(app?.name == name)
    let found = app?.destination(of: try #require(TokenShape(token)), userAgents: [userAgent])
    #expect(found?.kind == kind)
    #expect(found == nil || found?.app == name)
    let topics = ["Talk for iOS": "com.nextcloud.Talk", "Files for iOS": "it.twsweb.Nextcloud"]
    #expect(found?.target == (found == nil ? nil : topics[name ?? ""]))
  }

  @Test
  func `that nobody knows are taken for what the operator says`() throws {
    let own = try NextcloudApp.read(
      Array(#"[{"name":"Ours","user_agent":"Ours","kind":"files","platform":"android"}]"#.utf8))
    for name in ["Ours", "Talk for iOS"] {
      let apps = try NextcloudApps(own: own, default: name)
      #expect(apps.app(of: ["curl/8"])?.name == name)
      #expect(apps.app(of: [])?.name == name)
      #expect(apps.app(of: ["Mozilla/5.0 (Android) Nextcloud-Talk v21"])?.name == "Talk for Android")
    }
    #expect(try NextcloudApps(own: own).app(of: ["curl/8"]) == nil)
    #expect(throws: NextcloudApp.Malformed.self) { try NextcloudApps(own: own, default: "ours") }
  }

  @Test
  func `that nobody knows are told to the operator once each, in plain letters, and not without end`() {
    let time = Mutex(Date(timeIntervalSince1970: 1_790_000_000))
    let apps = UnknownApps(now: { time.withLock { $0 } })
    #expect(apps.add("Brand/1") == "Brand/1")
    #expect(apps.add("Brand/1") == nil)
    #expect(apps.add("Brand/2") == "Brand/2")
    #expect(apps.add("") == "(none)")
    #expect(apps.add("a\u{1b}[31m\u{e9}") == "a?[31m??")
    #expect(apps.add(String(repeating: "x", count: 5000))?.count == 200)
    #expect(apps.add(String(repeating: "x", count: 201)) == nil)
    let told = (0..<500).filter { apps.add("stranger \($0)") != nil }.count
    #expect(told == UnknownApps.maximum - 5)
    time.withLock { $0 += 86_399 }
    #expect(apps.add("Brand/3") == nil)
    time.withLock { $0 += 1 }
    #expect(apps.add("Brand/3") == "Brand/3")
  }

  @Test(
    arguments: [
      (hex, .apns), (hex.lowercased(), .apns), (String(repeating: "ab", count: 100), .apns),
      (pair, .apnsAndPushKit),
      (fcm, .fcm), (installationID, .fcm), (String(repeating: "a", count: 32), .fcm),
      (String(repeating: "a", count: 63), .fcm),
      (String(repeating: "a", count: 202), .fcm), (String(repeating: "_", count: 1024), .fcm),
      ("", nil), ("short", nil), (String(repeating: "_", count: 1025), nil),
      (String(repeating: "_", count: 31), nil),
      (" \(hex)", nil), ("\(hex) ", nil), ("\(hex)  \(hex)", nil), ("\(pair) \(hex)", nil),
      ("\(hex)\t\(hex)", nil), ("\(hex) \(fcm)", nil), ("\(fcm)é", nil),
      ("\(fcm)\u{7f}", nil), ("gR7dQw4w9WgXcQ-_AbCd09", nil), ("cR7dQw4w9WgXcQ-_AbCd0", nil),
    ] as [(String, TokenShape?)])
  func `have tokens of these shapes and no others`(token: String, shape: TokenShape?) {
    #expect(TokenShape(token) == shape)
  }

  @Test
  func `of the operator come first`() throws {
    let file = """
      [{"name": "F7 Talk", "user_agent": "^Mozilla/5\\\\.0 \\\\(iOS\\\\) F7cloud-Talk", "kind": "talk",
        "platform": "ios", "apns_topic": "com.f7cloud.Talk"},
       {"name": "F7 Files", "user_agent": "F7cloud-android", "kind": "files", "platform": "android",
        "fcm_project": "f7-project"},
       {"name": "Everything", "user_agent": "Nextcloud-Talk v99", "kind": "other", "platform": "ios",
        "apns_topic": "org.example.other", "fcm_project": null}]
      """
    let apps = try NextcloudApps(own: try NextcloudApp.read(Array(file.utf8)))
    func find(_ userAgents: [String], _ token: String = Self.hex) -> NextcloudDevice.Destination? {
      TokenShape(token).flatMap { apps.app(of: userAgents)?.destination(of: $0, userAgents: userAgents) }
    }
    #expect(
      find(["Mozilla/5.0 (iOS) F7cloud-Talk v1 (Strict VoIP)"], Self.pair)
        == .init(kind: .apns, app: "F7 Talk", target: "com.f7cloud.Talk"))
    #expect(
      find(["Mozilla/5.0 (Android) F7cloud-android/1", "Jakarta"], Self.fcm)
        == .init(kind: .fcm, app: "F7 Files", target: "f7-project"))
    #expect(find(["Mozilla/5.0 (iOS) Nextcloud-Talk v99"])?.app == "Everything")
    #expect(find(["Mozilla/5.0 (iOS) Nextcloud-Talk v21"])?.app == "Talk for iOS")
  }

  @Test(arguments: [
    "", "{}", "[1]", "[{}]", #"[{"name":"a","user_agent":"(","kind":"talk","platform":"android"}]"#,
    #"[{"name":"a","user_agent":"a","kind":"talk","platform":"ios"}]"#,
    #"[{"name":"a","user_agent":"a","kind":"tolk","platform":"android"}]"#,
    #"[{"name":"a","user_agent":"a","kind":"talk","platform":"windows"}]"#,
    #"[{"name":"a","user_agent":7,"kind":"talk","platform":"android"}]"#,
    #"[{"user_agent":"a","kind":"talk","platform":"android"}]"#,
    #"[{"name":"a","user_agent":"a","kind":"talk","platform":"android","fcm_project":""}]"#,
  ])
  func `of the operator must be described as they should`(file: String) {
    #expect(throws: NextcloudApp.Malformed.self) { try NextcloudApp.read(Array(file.utf8)) }
  }
}
