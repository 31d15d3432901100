import Foundation
import Registrations
import Testing

@testable import Nextcloud

@Suite("The apps of Nextcloud")
struct NextcloudAppsTests {
  private static let hex = String(repeating: "A1", count: 32)
  private static let pair = "\(hex) \(hex)"
  private static let fcm = "dQw4w9WgXcQ:APA91bHun4MxP5egoKMwt2KZFBaFUH-1RYqx_synthetic"

  @Test(
    "are told by what they call themselves, else by their token",
    arguments: [
      ("Mozilla/5.0 (iOS) Nextcloud-Talk v21.0.0", hex, .apns, "Talk for iOS"),
      ("Mozilla/5.0 (iOS) Nextcloud-Talk v21.0.0 (Strict VoIP)", pair, .apns, "Talk for iOS"),
      ("Mozilla/5.0 (iOS) Nextcloud-Talk v8 (PushKit)", hex, .pushKit, "Talk for iOS"),
      ("Mozilla/5.0 (iOS) Nextcloud-Talk v8 (PushKit)", pair, .apns, "Talk for iOS"),
      ("Mozilla/5.0 (iOS) Nextcloud-Talk v21.0.0", fcm, nil, ""),
      ("Mozilla/5.0 (iOS) Nextcloud-iOS/6.0.0  (Strict VoIP)", hex, .apns, "Files for iOS"),
      ("Mozilla/5.0 (iOS) ownCloud-iOS/1", hex, .apns, "Files for iOS"),
      ("Mozilla/5.0 (Android) Nextcloud-Talk v21.0.0", fcm, .fcm, "Talk for Android"),
      ("Mozilla/5.0 (Android) Nextcloud-Talk v21.0.0", hex, .fcm, "Talk for Android"),
      ("Mozilla/5.0 (Android) Nextcloud-Talk v21.0.0", pair, nil, ""),
      ("Mozilla/5.0 (Android) Nextcloud-android/3.30", fcm, .fcm, "Files for Android"),
      ("Mozilla/5.0 (Android) ownCloud-android/2", fcm, .fcm, "Files for Android"),
      ("curl/8", fcm, .fcm, "other"), ("curl/8", pair, .apns, "Talk for iOS"),
      ("curl/8", hex, .apns, "Files for iOS"), ("My Talk", hex, .apns, "Talk for iOS"),
      ("Mozilla/5.0 (Android) Brand", hex, .fcm, "other"), ("", fcm, .fcm, "other"),
    ] as [(String, String, NextcloudDevice.Destination.Kind?, String)])
  func detection(userAgent: String, token: String, kind: NextcloudDevice.Destination.Kind?, app: String) {
    let found = NextcloudApps().destination(of: token, userAgents: [userAgent])
    #expect(found?.kind == kind)
    #expect((found?.app ?? "") == app)
    let topics = ["Talk for iOS": "com.nextcloud.Talk", "Files for iOS": "it.twsweb.Nextcloud"]
    #expect(found?.target == topics[app])
  }

  @Test(
    "have tokens of these shapes and no others",
    arguments: [
      (hex, .apns), (hex.lowercased(), .apns), (String(repeating: "ab", count: 100), .apns),
      (pair, .apnsAndPushKit),
      (fcm, .fcm), (String(repeating: "a", count: 32), .fcm), (String(repeating: "a", count: 63), .fcm),
      (String(repeating: "a", count: 202), .fcm), (String(repeating: "_", count: 4096), .fcm),
      ("", nil), ("short", nil), (String(repeating: "_", count: 4097), nil),
      (String(repeating: "_", count: 31), nil),
      (" \(hex)", nil), ("\(hex) ", nil), ("\(hex)  \(hex)", nil), ("\(pair) \(hex)", nil),
      ("\(hex)\t\(hex)", nil), ("\(hex) \(fcm)", nil), ("\(fcm)é", nil),
      ("\(fcm)\u{7f}", nil),
    ] as [(String, TokenShape?)])
  func shapes(token: String, shape: TokenShape?) {
    #expect(TokenShape(token) == shape)
  }

  @Test("of the operator come first")
  func own() throws {
    let file = """
      [{"name": "F7 Talk", "user_agent": "^Mozilla/5\\\\.0 \\\\(iOS\\\\) F7cloud-Talk", "kind": "talk",
        "platform": "ios", "apns_topic": "com.f7cloud.Talk"},
       {"name": "F7 Files", "user_agent": "F7cloud-android", "kind": "files", "platform": "android",
        "fcm_project": "f7-project"},
       {"name": "Everything", "user_agent": "Nextcloud-Talk v99", "kind": "other", "platform": "ios",
        "apns_topic": "org.example.other", "fcm_project": null}]
      """
    let apps = NextcloudApps(own: try NextcloudApp.read(Array(file.utf8)))
    func find(_ userAgents: [String], _ token: String = Self.hex) -> NextcloudDevice.Destination? {
      apps.destination(of: token, userAgents: userAgents)
    }
    #expect(
      find(["Mozilla/5.0 (iOS) F7cloud-Talk v1 (Strict VoIP)"], Self.pair)
        == .init(.apns, app: "F7 Talk", target: "com.f7cloud.Talk"))
    #expect(
      find(["Mozilla/5.0 (Android) F7cloud-android/1", "Jakarta"], Self.fcm)
        == .init(.fcm, app: "F7 Files", target: "f7-project"))
    #expect(find(["Mozilla/5.0 (iOS) Nextcloud-Talk v99"])?.app == "Everything")
    #expect(find(["Mozilla/5.0 (iOS) Nextcloud-Talk v21"])?.app == "Talk for iOS")
  }

  @Test(
    "of the operator must be described as they should",
    arguments: [
      "", "{}", "[1]", "[{}]", #"[{"name":"a","user_agent":"(","kind":"talk","platform":"android"}]"#,
      #"[{"name":"a","user_agent":"a","kind":"talk","platform":"ios"}]"#,
      #"[{"name":"a","user_agent":"a","kind":"tolk","platform":"android"}]"#,
      #"[{"name":"a","user_agent":"a","kind":"talk","platform":"windows"}]"#,
      #"[{"name":"a","user_agent":7,"kind":"talk","platform":"android"}]"#,
      #"[{"user_agent":"a","kind":"talk","platform":"android"}]"#,
      #"[{"name":"a","user_agent":"a","kind":"talk","platform":"android","fcm_project":""}]"#,
    ])
  func malformed(file: String) {
    #expect(throws: NextcloudApp.Malformed.self) { try NextcloudApp.read(Array(file.utf8)) }
  }
}
