import Foundation
import HTTP
import HTTPTypes
import TestService
import TestSupport
import Testing

@testable import NextcloudServer

/// What an app asks for before it signs in, for a host application that serves the rest of a Nextcloud server.
@Suite struct CapabilitiesTests {
  @Test func `What the operator's file has is merged in, with a login and without one`() async throws {
    try await withTemporaryFolder { folder in
      let file = folder.appending(path: "capabilities.json")
      let added: JSON = [
        "spreed": ["features": ["conversation-v4", "chat-v2"], "config": ["chat": ["max-length": 1000]]],
        "core": ["webdav-root": "remote.php/webdav"],
        "notifications": ["admin-notifications": ["ocs"]],
      ]
      try Data(added.bytes).write(to: file)
      try await Instance.test(["nextcloud.capabilities_file": file.path]) { instance in
        let app = try await instance.user()
        for base in ["/ocs/v1.php", "/ocs/v2.php"] {
          let stranger = try await instance.call(.get, "cloud/capabilities", base: base)
          let signedIn = try await app.call(.get, "cloud/capabilities", base: base)
          for answer in [stranger, signedIn] {
            #expect(answer.status == 200)
            let capabilities = answer.data?["capabilities"]
            #expect(capabilities?["spreed"] == added["spreed"])
            // One object of both.
            #expect(capabilities?["core"] == ["pollinterval": 60, "webdav-root": "remote.php/webdav"])
            // An array is not merged.
            #expect(capabilities?["notifications"]?["admin-notifications"] == ["ocs"])
          }
          #expect(signedIn.data?["capabilities"]?["notifications"]?["push"]?.elements.first == "devices")
          #expect(stranger.data?["capabilities"]?["notifications"]?["push"] == nil)
        }
        let xml = try await instance.call(.get, "cloud/capabilities", format: "xml")
        #expect(xml.body.contains("<element>conversation-v4</element>"))
      }
    }
  }

  @Test(arguments: [
    (#"{"spreed": {"features": ["chat-v2"]}"#, "is no JSON: it ends too early"),
    ("{\n  \"spreed\": {\n    features: []\n  }\n}", "is no JSON: line 3, column 5: f is not expected there"),
    ("", "is no JSON: it is empty"), ("[]", "is no JSON object"),
    (#"{"ocs": {"meta": {}, "data": {"capabilities": {}}}}"#, "only what is in ocs.data.capabilities"),
    (String(repeating: "[", count: 65), "it is nested deeper than 64 levels"),
  ])
  func `A file that is none is refused with what is wrong and where`(_ text: String, _ says: String) {
    let error = #expect(throws: AddedCapabilities.Malformed.self) { try AddedCapabilities(Array(text.utf8)) }
    #expect(error?.description.contains(says) == true, "\(error?.description ?? "")")
  }

  @Test func `An app that asks for an empty answer gets one, and sees that the network is open`() async throws
  {
    try await Instance.test { instance in
      for path in ["/index.php/204", "/204"] {
        let answer = try await instance.test.call(.get, path)
        #expect(answer.status == 204 && answer.text.isEmpty)
        #expect(answer.headers[.contentType] == nil)
        #expect(try await instance.test.call(.post, path).status == 405)
      }
    }
  }
}
