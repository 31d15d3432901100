import Testing

@testable import Basics

@Suite struct TurnsTests {
  private static func turns(_ elements: String...) -> Turns<Character, String> {
    var turns = Turns<Character, String>()
    for element in elements { turns.append(element, of: element.first ?? "-") }
    return turns
  }

  @Test func `Holders have their turns, each in its order`() {
    var turns = Self.turns("a1", "a2", "a3", "b1", "c1")
    turns.prepend("c0", of: "c")
    #expect(turns.count == 6 && turns.count(of: "c") == 2)
    turns.removeAll { $0 == "a2" }
    var order: [String] = []
    while let (element, _) = turns.next(where: { $1 != "b" }) { order.append(element) }
    #expect(order == ["c0", "a1", "c1", "a3"])
    #expect(turns.count == 1 && turns.removeAll() == ["b1"] && turns.isEmpty)
  }

  @Test func `One who may have nothing now keeps its place among those who may not`() {
    var turns = Self.turns("a1", "b1", "c1")
    let none = turns.next { _, _ in false }
    #expect(none == nil)
    #expect(turns.removeAll() == ["a1", "b1", "c1"])
  }

  @Test func `One that nobody may come before keeps the first place, and those before it lose theirs`() {
    var turns = Self.turns("a1", "b1", "c1")
    let none = turns.next { $1 == "b" ? nil : false }
    #expect(none == nil)
    #expect(turns.removeAll() == ["b1", "c1", "a1"])
  }

  @Test func `One that gives up leaves the others where they are`() {
    var turns = Self.turns("a1", "a2", "b1")
    #expect(turns.remove(of: "a", where: { $0 == "a1" }) == "a1")
    #expect(turns.remove(of: "a", where: { $0 == "a1" }) == nil)
    #expect(turns.remove(of: "c", where: { _ in true }) == nil)
    #expect(turns.count == 2)
    #expect(turns.remove(of: "a", where: { $0 == "a2" }) == "a2")
    #expect(turns.next() == "b1" && turns.next() == nil && turns.isEmpty)
  }
}
