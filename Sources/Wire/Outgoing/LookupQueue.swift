/// Which question about a name is asked next, and who waits for its answer.
struct LookupQueue<Question: Hashable & Sendable>: Sendable {
  struct Limits: Sendable {
    /// Questions that are asked at a time,
    var threads: Int
    /// of them about names of one domain,
    var perDomain: Int
    /// and about names that have not answered well of late.
    var perNew: Int
    /// Questions that wait to be asked.
    var waiting = 1000
    /// Names that are remembered to have answered well, twice over.
    var remembered = 2000
  }

  /// Someone who waits.
  typealias Waiter = Int

  private struct Lookup {
    let name: String
    let domain: Substring
    var waiters: Set<Waiter>
    /// Whether it counts among those of names that have not answered well; nil while it is not being asked.
    var isNew: Bool?
  }

  private let limits: Limits
  private var lookups: [Question: Lookup] = [:]
  /// Those that are not being asked, the oldest first.
  private(set) var waiting: [Question] = []
  private var running = 0
  private var runningNew = 0
  private var runningByDomain: [Substring: Int] = [:]
  /// Names that have answered well: lately, and before that.
  private var good: Set<String> = []
  private var formerlyGood: Set<String> = []

  /// How many names are remembered.
  var remembered: Int { good.count + formerlyGood.count }

  init(limits: Limits) {
    self.limits = limits
  }

  /// Takes a question, or joins those who wait for its answer already.
  mutating func add(_ question: Question, about name: String, for waiter: Waiter) throws(LookupsExhausted) {
    if lookups[question]?.waiters.insert(waiter) != nil { return }
    guard waiting.count < limits.waiting else { throw LookupsExhausted() }
    lookups[question] = Lookup(name: name, domain: Self.domain(of: name), waiters: [waiter])
    waiting.append(question)
  }

  /// Somebody waits no longer. What nobody waits for and is not being asked yet never is.
  mutating func leave(_ question: Question, _ waiter: Waiter) {
    guard lookups[question]?.waiters.remove(waiter) != nil, let lookup = lookups[question] else { return }
    guard lookup.waiters.isEmpty, lookup.isNew == nil else { return }
    lookups[question] = nil
    waiting.removeAll { $0 == question }
  }

  /// The next question to ask, if one may be asked now.
  mutating func next() -> Question? {
    guard running < limits.threads else { return nil }
    for (index, question) in waiting.enumerated() {
      guard let lookup = lookups[question] else { continue }
      let isNew = !good.contains(lookup.name) && !formerlyGood.contains(lookup.name)
      guard runningByDomain[lookup.domain, default: 0] < limits.perDomain,
        !isNew || runningNew < limits.perNew
      else { continue }
      waiting.remove(at: index)
      running += 1
      runningByDomain[lookup.domain, default: 0] += 1
      if isNew { runningNew += 1 }
      lookups[question]?.isNew = isNew
      return question
    }
    return nil
  }

  /// A question has its answer.
  ///
  /// - Returns: who waits for it.
  mutating func finish(_ question: Question, isGood: Bool) -> Set<Waiter> {
    guard let lookup = lookups.removeValue(forKey: question), let isNew = lookup.isNew else { return [] }
    running -= 1
    if isNew { runningNew -= 1 }
    let others = runningByDomain[lookup.domain, default: 1] - 1
    runningByDomain[lookup.domain] = others > 0 ? others : nil
    remember(lookup.name, isGood: isGood)
    return lookup.waiters
  }

  private mutating func remember(_ name: String, isGood: Bool) {
    guard isGood else {
      good.remove(name)
      formerlyGood.remove(name)
      return
    }
    if good.count >= limits.remembered { (formerlyGood, good) = (good, []) }
    good.insert(name)
  }

  /// What a name's owner is known by: its last two labels.
  private static func domain(of name: String) -> Substring {
    let dots = name.utf8.indices.filter { name.utf8[$0] == UInt8(ascii: ".") }
    return dots.count < 2 ? name[...] : name[name.utf8.index(after: dots[dots.count - 2])...]
  }
}
