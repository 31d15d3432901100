import Foundation
import Testing

@testable import Basics
@testable import push_bouncer

@Suite struct OutputTests {
  private func table() -> Table {
    var table = Table("HOST", .number("DEVICES"), "STATE")
    table.add("chat.example.org", "1,234", Table.Cell("active", .good))
    table.add("한국.example", "7", Table.Cell("failing", .bad))
    table.add("e\u{301}.example", "12")
    return table
  }

  @Test func `Columns stand below one another by their displayed width, numbers to the right`() {
    #expect(
      table().text(for: .plain) == """
        HOST              DEVICES  STATE
        chat.example.org    1,234  active
        한국.example            7  failing
        e\u{301}.example              12
        """)
  }

  @Test func `Colour is for a terminal that wants it`() {
    let text = table().text(for: Terminal(isTerminal: true, ["TERM": "xterm"]))
    #expect(text.contains("\u{1b}[1mHOST\u{1b}[0m"))
    #expect(text.contains("\u{1b}[31mfailing\u{1b}[0m"))
    for (isTerminal, environment, isRewritten) in [
      (true, ["TERM": "xterm", "NO_COLOR": "1"], true), (true, ["TERM": "dumb"], false), (true, [:], false),
      (true, ["TERM": ""], false), (false, ["TERM": "xterm"], false),
    ] as [(Bool, [String: String], Bool)] {
      let terminal = Terminal(isTerminal: isTerminal, environment)
      #expect(!terminal.hasColour)
      #expect(table().text(for: terminal) == table().text(for: .plain))
      // A progress line, which NO_COLOR says nothing about.
      #expect(terminal.isTerminal == isRewritten, "\(environment)")
    }
    #expect(Terminal(isTerminal: true, ["TERM": "xterm", "NO_COLOR": ""]).hasColour)
  }

  @Test(arguments: [
    ("a\r\nb", "a  b"), ("a\rb\nc\td", "a b c d"), ("\r\n", "  "),
    ("a\nb\u{1b}[2J\u{202e}", #"a b\u001b[2J\u202e"#), ("a\u{200b}b", #"a\u200bb"#),
    (String(repeating: "x", count: 900_000), String(repeating: "x", count: 254) + "…"),
  ])
  func `What a stranger named ends no row and commands no terminal`(_ name: String, _ shown: String) {
    var table = Table("NAME", "STATE")
    table.add(Table.Cell(name), "active")
    let lines = table.text(for: Terminal(isTerminal: true, ["TERM": "xterm"])).split(separator: "\n")
    #expect(lines.count == 2 && lines.last?.hasPrefix(shown) == true)
  }

  @Test(arguments: [
    ("a\u{1b}[2Jb\u{7f}\u{9b}", #"a\u001b[2Jb\u007f\u009b"#),
    ("a\u{202e}b\u{2066}c\nd", "a\\u202eb\\u2066c\nd"), ("Grüße 한국어 👩", "Grüße 한국어 👩"),
  ])
  func `What would be obeyed is shown as an escape`(_ text: String, _ shown: String) {
    #expect(text.printable == shown)
  }

  @Test func `A command shows no name as it was written that would be obeyed`() async throws {
    try await Workplace.test { place in
      _ = try await place.run("init")
      for arguments in [
        ["account", "add", "--email", "a\u{202e}b\u{200b}@example.org"], ["account", "list"],
        ["account", "list", "--json"],
      ] {
        let text = try await place.run(arguments).output
        #expect(text.contains(#"a\u202eb\u200b@example.org"#) && !text.unicodeScalars.contains("\u{202e}"))
      }
    }
  }
}
