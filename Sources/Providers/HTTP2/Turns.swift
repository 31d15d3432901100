import NIOCore

/// What waits, of several owners: each of them has its turn, and what one of them has comes in its order.
struct Turns<Element> {
  private var queues: [Owner: CircularBuffer<Element>] = [:]
  /// The owners with something waiting, whose turn is next first.
  private var order = CircularBuffer<Owner>()
  private(set) var count = 0

  var isEmpty: Bool { count == 0 }

  func count(of owner: Owner) -> Int { queues[owner]?.count ?? 0 }

  mutating func append(_ element: Element, of owner: Owner) {
    if queues[owner] == nil { order.append(owner) }
    queues[owner, default: []].append(element)
    count += 1
  }

  /// Goes before all others.
  mutating func prepend(_ element: Element, of owner: Owner) {
    order.removeAll { $0 == owner }
    order.prepend(owner)
    queues[owner, default: []].prepend(element)
    count += 1
  }

  /// Takes the first element of the owner whose turn it is, of those that may have one.
  mutating func next(where mayHave: (Owner) -> Bool) -> (Element, Owner)? {
    for _ in 0..<order.count {
      let owner = order.removeFirst()
      guard mayHave(owner) else {
        order.append(owner)
        continue
      }
      let element = queues[owner]?.popFirst()
      if queues[owner]?.isEmpty == true { queues[owner] = nil } else { order.append(owner) }
      guard let element else { continue }
      count -= 1
      return (element, owner)
    }
    return nil
  }

  /// Takes out those of which this is true.
  mutating func removeAll(where isOver: (Element) -> Bool) {
    for owner in order { queues[owner]?.removeAll(where: isOver) }
    queues = queues.filter { !$0.value.isEmpty }
    order.removeAll { queues[$0] == nil }
    count = queues.values.reduce(0) { $0 + $1.count }
  }

  /// Takes out all.
  mutating func removeAll() -> [Element] {
    defer { self = Turns() }
    return order.flatMap { queues[$0].map(Array.init) ?? [] }
  }
}
