import Testing

@testable import Nextcloud

@Suite("A cloud id")
struct CloudIDTests {
  @Test(
    "is a user, a host and perhaps a port and a path",
    arguments: [
      ("alice@cloud.example.org", "alice", "https://cloud.example.org/ocs/v2.php/identityproof/key/alice"),
      (
        "alice@cloud.example.org/nextcloud", "alice",
        "https://cloud.example.org/nextcloud/ocs/v2.php/identityproof/key/alice"
      ),
      (
        "alice@example.com@cloud.example.org:8443/a/b/", "alice@example.com",
        "https://cloud.example.org:8443/a/b/ocs/v2.php/identityproof/key/alice%40example.com"
      ),
      (
        "j\u{fc}rgen x'y@cloud.example.org", "j\u{fc}rgen x'y",
        "https://cloud.example.org/ocs/v2.php/identityproof/key/j%C3%BCrgen%20x%27y"
      ),
      (
        "alice@https://cloud.example.org/", "alice",
        "https://cloud.example.org/ocs/v2.php/identityproof/key/alice"
      ), ("a@localhost:1", "a", "https://localhost:1/ocs/v2.php/identityproof/key/a"),
      ("a@[2001:db8::1]", "a", "https://[2001:db8::1]/ocs/v2.php/identityproof/key/a"),
    ])
  func good(text: String, user: String, url: String) throws {
    let cloudID = try #require(CloudID(text))
    #expect(cloudID.user == user)
    #expect(cloudID.keyURL == url + "?format=json")
  }

  @Test(
    "is nothing else",
    arguments: [
      "", "@", "alice", "alice@", "@cloud.example.org", "alice@dotless", "alice@cloud.example.org?x=1",
      "alice@cloud.example.org#x", "alice@cloud.example.org/../admin", "alice@cloud.example.org/a%2fb",
      "alice@cloud.example.org/a b", "alice@cloud.example.org:0", "alice@cloud.example.org:99999",
      "alice@http://cloud.example.org", "/alice@cloud.example.org", "alice@cloud.example.org/x?y",
      "alice@cloud.example.org/" + String(repeating: "a", count: 600),
    ])
  func bad(text: String) {
    #expect(CloudID(text) == nil)
  }
}
