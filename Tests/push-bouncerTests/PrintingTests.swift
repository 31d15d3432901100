import Testing

@testable import push_bouncer

@Suite struct PrintingTests {
  @Test func `A name stays in one line, whatever breaks it`() {
    for (name, shown) in [("a\r\nb", "a  b"), ("a\rb\nc\td", "a b c d"), ("\r\n", "  ")] {
      #expect(name.inOneLine == shown)
      var table = Table("NAME")
      table.add(Table.Cell(name))
      #expect(table.text(for: .plain).unicodeScalars.count { $0 == "\n" } == 1)
    }
  }

  @Test func `What a stranger named neither commands a terminal nor turns what it shows`() async throws {
    #expect("a\u{1b}[2Jb\u{7f}\u{9b}".printable == #"a\u001b[2Jb\u007f\u009b"#)
    #expect("a\u{202e}b\u{2066}c\nd".printable == "a\\u202eb\\u2066c\nd")
    #expect("Grüße 한국어 👨‍👩‍👧".printable == "Grüße 한국어 👨‍👩‍👧")
    try await Workplace.test { place in
      _ = try await place.run("init")
      let text = try await place.run("account", "add", "--email", "a\u{202e}b@example.org").output
      #expect(text.contains(#"a\u202eb@example.org"#))
      #expect(!text.unicodeScalars.contains("\u{202e}"))
      let list = try await place.run("account", "list", "--json")
      #expect(!list.output.unicodeScalars.contains("\u{202e}"))
      #expect(list.output.contains(#"a\u202eb@example.org"#))
    }
  }
}
