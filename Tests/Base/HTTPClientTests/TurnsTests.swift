import Basics
import Testing

@testable import HTTPClient

@Suite struct TurnsTests {
  @Test func `Owners have their turns, each in its order`() {
    var turns = Turns<String>()
    for text in ["a1", "a2", "a3", "b1", "c1"] {
      turns.append(text, of: Owner(id: Int64(text.utf8.first ?? 0)))
    }
    turns.prepend("c0", of: Owner(id: Int64(UInt8(ascii: "c"))))
    #expect(turns.count == 6)
    turns.removeAll { $0 == "a2" }
    var order: [String] = []
    while let (text, _) = turns.next(where: { $0 != Owner(id: Int64(UInt8(ascii: "b"))) }) {
      order.append(text)
    }
    #expect(order == ["c0", "a1", "c1", "a3"])
    #expect(turns.count == 1 && turns.removeAll() == ["b1"] && turns.isEmpty)
  }
}
