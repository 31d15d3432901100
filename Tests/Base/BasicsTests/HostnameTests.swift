import Basics
import Testing

@Suite("A hostname")
struct HostnameTests {
  @Test(arguments: [
    "chat.example.org", "CHAT.Example.org", "chat.example.org:8443", "localhost", "localhost:9991",
    "192.0.2.7",
    "[2001:db8::1]", "[2001:db8::1]:8443", "xn--bcher-kva.example", "a-b.c1.example.co",
  ])
  func `is a name with a dot, localhost or an address, with an optional port`(text: String) throws {
    #expect(try Hostname(text).text == text.lowercased())
  }

  @Test(arguments: [
    (
      "chat.example.org",
      ["CHAT.Example.org", "chat.example.org.", "chat.example.org:443", "chat.example.org.:0443"]
    ),
    ("chat.example.org:8443", ["chat.example.org:08443", "Chat.example.org.:8443"]),
    ("[2001:db8::1]", ["[2001:DB8:0::0001]", "[2001:db8::1]:443", "[2001:db8:0:0:0:0:0.0.0.1]"]),
    ("localhost", ["LocalHost:443"]), ("192.0.2.7:80", ["192.0.2.7:00080"]),
  ])
  func `is one value in every spelling`(name: String, others: [String]) throws {
    for other in others {
      #expect(try Hostname(other) == Hostname(name))
      #expect(try Hostname(other).text == name)
      #expect(Hostname.key(of: other) == name)
    }
  }

  @Test(arguments: [
    "bücher.example", "ⓒhat.example.org", "ｃhat.example.org", "chat.example.org／x", "chat。example.org",
    "chat.example.org：8443", "chat.example.org:８443", "a\u{301}.example.org", "\u{212a}.example.org",
    String(repeating: "\u{345}", count: 100_000),
  ])
  func `is ASCII`(text: String) {
    #expect(throws: Hostname.Malformed.notASCII) { try Hostname(text) }
  }

  @Test(arguments: [
    ("bücher.example", "xn--bcher-kva.example"), ("BÜCHER.example.", "xn--bcher-kva.example"),
    ("xn--bcher-kva.example", "xn--bcher-kva.example"),
    ("bücher.example:08443", "xn--bcher-kva.example:8443"), ("ⓒhat.example.org", "chat.example.org"),
  ])
  func `that is international is kept under its A-label`(text: String, label: String) {
    #expect(Hostname(international: text)?.text == label)
  }

  @Test(arguments: [
    "chat.example.org／x", "exam%70le.org", "me@bücher.example", "bücher.example/x", "", "bücher",
    "b ü.example",
    "\u{200b}.example", "ü.example\n", String(repeating: "ü", count: 200) + ".example",
  ])
  func `is nothing else that is international`(text: String) {
    #expect(Hostname(international: text) == nil)
  }

  @Test(arguments: [
    "chat.example.org/", "chat.example.org/path", "chat.example.org?a=b", "chat.example.org#f", "/",
  ])
  func `has no path, query or fragment`(text: String) {
    #expect(throws: Hostname.Malformed.components) { try Hostname(text) }
  }

  @Test(arguments: [
    "", "chat", "chat.", ".org", "-a.example.org", "a-.example.org", "a..org", "chat.example.org:",
    "chat.example.org:0", "chat.example.org:65536", "chat.example.org:123456", "chat.example.org:x",
    "256.1.1.1",
    "1.2.3", "[::1", "::1", "[::g]", "user@example.org", "a b.example.org", "chat.example.o",
    "chat.example.0rg",
    "a_b.example.org",
    "chat.example.org\n", "chat.example.org\0", String(repeating: "a.", count: 126) + "org",
    String(repeating: "a", count: 64) + ".org",
  ])
  func `is nothing else`(text: String) {
    #expect(throws: Hostname.Malformed.invalid) { try Hostname(text) }
  }

  @Test
  func `tells host and port apart`() throws {
    #expect(try Hostname("chat.example.org:8443").host == "chat.example.org")
    #expect(try Hostname("chat.example.org:8443").port == 8443)
    #expect(try Hostname("[2001:db8::1]:8443").host == "2001:db8::1")
    #expect(try Hostname("chat.example.org").port == nil)
  }
}

@Suite("A pattern of hostnames")
struct HostnamePatternTests {
  @Test(arguments: [
    (
      "Chat.example.org", ["chat.example.org", "CHAT.example.org.:443"],
      ["chat.example.org:8443", "chat.example.org:08443", "x.chat.example.org", "example.org"]
    ),
    ("chat.example.org:08443", ["chat.example.org:8443"], ["chat.example.org"]),
    (
      "*.Example.org", ["a.example.org", "a.b.example.org"],
      ["example.org", "aexample.org", "a.example.org:8443", "x.example.org.example.net"]
    ),
    ("*.example.org:8443", ["a.example.org:8443"], ["a.example.org"]),
  ])
  func `is for its hostname, or all below its domain, and for its port alone`(
    pattern: String, fitting: [String], others: [String]
  ) throws {
    let pattern = try HostnamePattern(pattern)
    for text in fitting { #expect(try pattern.matches(Hostname(text)), "\(text)") }
    for text in others { #expect(try !pattern.matches(Hostname(text)), "\(text)") }
  }

  @Test(arguments: [
    "*", "*.", "*example.org", "a.*.org", "*.bücher.example", "chat", "https://chat.example.org", "*.a.b/",
  ])
  func `is nothing else`(text: String) {
    #expect(throws: Hostname.Malformed.self) { try HostnamePattern(text) }
  }
}
