import NIOCore

/// A queue that serves several holders in turn; each holder's elements keep their order.
package struct Turns<Holder: Hashable & Sendable, Element> {
  private var queues: [Holder: CircularBuffer<Element>] = [:]
  /// The holders with waiting elements, the next one first.
  private var order = CircularBuffer<Holder>()
  package private(set) var count = 0

  package init() {}

  package var isEmpty: Bool { count == 0 }

  package func count(of holder: Holder) -> Int { queues[holder]?.count ?? 0 }

  package mutating func append(_ element: Element, of holder: Holder) {
    if queues[holder] == nil { order.append(holder) }
    queues[holder, default: []].append(element)
    count += 1
  }

  /// Puts an element before all others.
  package mutating func prepend(_ element: Element, of holder: Holder) {
    order.removeAll { $0 == holder }
    order.prepend(holder)
    queues[holder, default: []].prepend(element)
    count += 1
  }

  /// Takes the first element, whoever has it.
  package mutating func next() -> Element? { next { _, _ in true }?.0 }

  /// Takes the first element of the next holder that may have it. Whoever may not is asked last the next time.
  ///
  /// - Parameter mayHave: nil if nobody may have anything before this holder has it.
  package mutating func next(where mayHave: (Element, Holder) -> Bool?) -> (Element, Holder)? {
    for _ in 0..<order.count {
      guard let holder = order.first, let first = queues[holder]?.first else { return nil }
      guard let isAllowed = mayHave(first, holder) else { return nil }
      order.removeFirst()
      guard isAllowed else {
        order.append(holder)
        continue
      }
      queues[holder]?.removeFirst()
      if queues[holder]?.isEmpty == true { queues[holder] = nil } else { order.append(holder) }
      count -= 1
      return (first, holder)
    }
    return nil
  }

  /// Removes the first element of the holder that is the one.
  package mutating func remove(of holder: Holder, where isIt: (Element) -> Bool) -> Element? {
    guard let index = queues[holder]?.firstIndex(where: isIt) else { return nil }
    count -= 1
    defer {
      if queues[holder]?.isEmpty == true {
        queues[holder] = nil
        order.removeAll { $0 == holder }
      }
    }
    return queues[holder]?.remove(at: index)
  }

  package mutating func removeAll(where isOver: (Element) -> Bool) {
    for holder in order { queues[holder]?.removeAll(where: isOver) }
    queues = queues.filter { !$0.value.isEmpty }
    order.removeAll { queues[$0] == nil }
    count = queues.values.reduce(0) { $0 + $1.count }
  }

  package mutating func removeAll() -> [Element] {
    defer { self = Turns() }
    return order.flatMap { queues[$0].map(Array.init) ?? [] }
  }
}

extension Turns: Sendable where Element: Sendable {}
