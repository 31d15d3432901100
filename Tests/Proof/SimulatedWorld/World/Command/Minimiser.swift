/// Shortens a failing plan: leaves out events as long as the same promise is still broken.
struct Minimiser {
  private let plan: Plan
  private let promise: String
  private let standIn: StandIn
  private(set) var tries = 0
  private static let most = 400

  init(plan: Plan, promise: String, standIn: StandIn) {
    (self.plan, self.promise, self.standIn) = (plan, promise, standIn)
  }

  /// The events that are needed for the failure. First halves of the plan are left out, then ever smaller
  /// parts.
  mutating func minimised() throws -> [Event] {
    var events = plan.events
    var size = max(1, events.count / 2)
    while size >= 1, tries < Self.most {
      var start = 0
      var hasChanged = false
      while start < events.count, tries < Self.most {
        var fewer = events
        fewer.removeSubrange(start..<min(start + size, events.count))
        if try fails(fewer) {
          events = fewer
          hasChanged = true
        } else {
          start += size
        }
      }
      if size == 1 && !hasChanged { break }
      if !hasChanged || size > 1 { size = max(1, size / 2) }
    }
    return events
  }

  private mutating func fails(_ events: [Event]) throws -> Bool {
    tries += 1
    var plan = plan
    plan.events = events
    let world = try World(plan, standIn: standIn)
    try world.run()
    return world.violation?.promise == promise
  }
}
