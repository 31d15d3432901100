import HTTP
import Testing

@Suite("What another service says")
struct ForeignTextTests {
  private static let key = "k3yK3yK3yK3yK3yK3yK3yK3yK3yK3yK3yK3yK3yK3yK3yK3yK3yK3yK3yK3yK3y0"

  @Test(arguments: [
    ("Organization not registered", "Organization not registered"),
    ("HOSTNAME_ALREADY_IN_USE_BOUNCER_ERROR", "HOSTNAME_ALREADY_IN_USE_BOUNCER_ERROR"),
    (
      "key does not match role 6b6f9a52-3c1e-4f0e-9d8a-0c8f6f0b7a11",
      "key does not match role 6b6f9a52-3c1e-4f0e-9d8a-0c8f6f0b7a11"
    ),
    (
      "no push-notification-service-for chat.example.org", "no push-notification-service-for chat.example.org"
    ),
    ("Authorization: Basic NmI2ZjlhNTItM2MxZS00ZjBlLTlkOGEtMGM4Zjpr", "Authorization: Basic ..."),
    ("wrong key \(key)!", "wrong key ...!"),
    ("token=dQw4w9WgXcQ-dQw4w9WgXcQ%3AAPA91b\(key)&kind=2", "...&kind=2"),
    (#"{"token":"\#(key)","kind":2}"#, #"{"token":"...","kind":2}"#),
    ("a\n\u{1B}[31mb\u{202E}\u{0}ü", "a  [31mb? ?"),
  ])
  func `is one line without what may be a secret`(text: String, shown: String) {
    #expect(ForeignText(text).description == shown)
  }

  @Test func `is short, and has no part of a secret where it is cut`() {
    let long = ForeignText(String(repeating: "word ", count: 100_000)).description
    #expect(long.utf8.count == ForeignText.maximumLength)
    // Left out, secrets leave room for what follows.
    let keys = String(repeating: "\(Self.key) ", count: 63) + "x" + Self.key
    #expect(ForeignText(keys).description == String(repeating: "... ", count: 63))
  }
}
