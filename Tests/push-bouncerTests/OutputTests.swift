import Foundation
import Operations
import Testing

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
    for terminal in [
      Terminal(isTerminal: true, ["NO_COLOR": "1"]), Terminal(isTerminal: true, ["TERM": "dumb"]),
      Terminal(isTerminal: false, [:]),
    ] {
      #expect(!terminal.hasColour)
      #expect(table().text(for: terminal) == table().text(for: .plain))
    }
    #expect(Terminal(isTerminal: true, ["NO_COLOR": ""]).hasColour)
  }

  @Test func `What a stranger named ends no row and commands no terminal`() {
    var table = Table("NAME", "STATE")
    table.add("a\nb\u{1b}[2J\u{202e}", "active")
    let lines = table.text(for: Terminal(isTerminal: true, [:])).split(separator: "\n")
    #expect(lines.count == 2)
    #expect(lines.last == #"a b\u001b[2J\u202e  active"#)
  }

  @Test func `Numbers, ages and sizes have units and plurals`() {
    #expect(Phrase.number(0) == "0")
    #expect(Phrase.number(999) == "999")
    #expect(Phrase.number(1_234_567) == "1,234,567")
    #expect(Phrase.number(-1000) == "-1,000")
    #expect(Phrase.count(1, "entry", "entries") == "1 entry")
    #expect(Phrase.count(2000, "realm") == "2,000 realms")
    let now = Date()
    #expect(Phrase.age(nil, at: now) == "never")
    for (seconds, text) in [
      (0, "0 s ago"), (99, "99 s ago"), (180, "3 min ago"), (3 * 3600, "3 h ago"),
      (49 * 3600, "2 days ago"), (-300, "in 5 min"),
    ] {
      #expect(Phrase.age(now - TimeInterval(seconds), at: now) == text)
    }
    #expect(Phrase.until(now + 7200, at: now) == "in 2 h")
    #expect(Phrase.until(now - 1, at: now) == "now")
    #expect(Phrase.size(1) == "1 byte")
    #expect(Phrase.size(1536) == "1.5 KiB")
    #expect(Phrase.size(64 << 20) == "64 MiB")
    #expect(Phrase.share(1, of: 3) == "33 %")
    #expect(Phrase.share(0, of: 0) == "-")
  }
}
