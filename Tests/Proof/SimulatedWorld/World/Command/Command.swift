import CVirtualTime
import Foundation

/// Runs worlds one after the other and reports the first that fails.
struct Command {
  private var seed: UInt64 = 1
  private var worlds = 1
  private var steps: Int?
  private var days: Int?
  private var story: String?
  private var only: [Int]?
  private var standIn = StandIn.none
  private var isTalking = false
  private var hasNextcloud = false
  private var hasChat = false
  private var hasNextcloudServer = false
  private var hasGateway = false
  private var isHostile = false
  private var hasUpstream = false
  private var hasTenants = false
  private var isMinimising = true

  init(_ arguments: some Sequence<String>) {
    var arguments = Array(arguments)
    func value() -> String { arguments.isEmpty ? "" : arguments.removeFirst() }
    while !arguments.isEmpty {
      switch arguments.removeFirst() {
      case "--seed": seed = UInt64(value()) ?? 1
      case "--worlds": worlds = Int(value()) ?? 1
      case "--steps": steps = Int(value())
      case "--days": days = Int(value())
      case "--story":
        let name = value()
        guard Plan.stories.contains(name) else {
          print("no story is called \(name); there are: \(Plan.stories.joined(separator: ", "))")
          exit(2)
        }
        story = name
      case "--only": only = value().split(separator: ",").compactMap { Int($0) }
      case "--stand-in":
        let name = value()
        guard let found = ([StandIn.none] + StandIn.all).first(where: { $0.name == name }) else {
          print(
            "no stand-in is called \(name); there are: \(StandIn.all.map(\.name).joined(separator: ", "))")
          exit(2)
        }
        standIn = found
      case "--nextcloud": hasNextcloud = true
      case "--chat": hasChat = true
      case "--nextcloud-server": hasNextcloudServer = true
      case "--gateway": hasGateway = true
      case "--hostile": isHostile = true
      case "--upstream": hasUpstream = true
      case "--tenants": hasTenants = true
      case "--log": isTalking = true
      case "--as-it-is": isMinimising = false
      case let other:
        print("unknown option \(other)")
        exit(2)
      }
    }
    guard !hasTenants || !hasUpstream && !hasGateway else {
      print("--tenants is for other worlds than --upstream and --gateway")
      exit(2)
    }
  }

  /// Runs the worlds. Returns the exit status: 0 if every promise was kept.
  func run() -> Int32 {
    VirtualExecutor.install()
    do {
      try Self.wait { try await World.prepare(hasNextcloudServer: hasNextcloudServer) }
      // What the process makes once, with random numbers, is made by now: a world is the same whatever came before it.
      var plan = Plan(seed: 0, steps: 0)
      if hasNextcloud { plan.addNextcloud() }
      if hasNextcloudServer { plan.addNextcloudServer() }
      if hasGateway { plan.addGateway() }
      if isHostile { plan.addHostile() }
      if hasUpstream { plan.addUpstream() }
      if hasTenants { plan.addTenants() }
      try World(plan).run()
      return try live()
    } catch {
      print("the worlds could not be made: \(error)")
      return 2
    }
  }

  private func live() throws -> Int32 {
    let began = virtual_time_real()
    var figures = World.Figures()
    var virtual = 0.0
    for seed in seed..<seed + UInt64(worlds) {
      var plan =
        story.flatMap { Plan(story: $0, seed: seed) } ?? days.map { Plan(days: $0, seed: seed) }
        ?? Plan(seed: seed, steps: steps)
      if hasNextcloud { plan.addNextcloud() }
      if hasChat { plan.addChat() }
      if hasNextcloudServer { plan.addNextcloudServer() }
      if hasGateway { plan.addGateway() }
      if isHostile { plan.addHostile() }
      if hasUpstream { plan.addUpstream() }
      if hasTenants { plan.addTenants() }
      if let only { plan.events.removeAll { !only.contains($0.number) } }
      let world = try World(plan, standIn: standIn, isTalking: isTalking)
      // Checking thousands of phones takes longer than an event of one of them.
      if days != nil { world.checkInterval = 600 }
      try world.run()
      figures.add(world.figures)
      virtual += world.duration
      if isTalking { print(world.log.joined(separator: "\n")) }
      if let violation = world.violation {
        try report(violation, plan)
        return 1
      }
    }
    let seconds = Double(virtual_time_real() - began) / 1e9
    print(
      """
      \(worlds) worlds from seed \(seed) on, every promise kept: \(figures.calls) calls, \(figures.promises) promises, \
      \(figures.arrivals) arrivals, \(figures.kills) kills, \(Int(virtual / 3600)) hours of virtual time in \
      \(String(format: "%.1f s, %.1f ms a world", seconds, seconds * 1000 / Double(worlds)))
      """)
    return 0
  }

  private func report(_ violation: Violation, _ plan: Plan) throws {
    print("seed \(plan.seed): \(violation.promise): \(violation.text)")
    var plan = plan
    if isMinimising, days == nil {
      var minimiser = Minimiser(plan: plan, promise: violation.promise, standIn: standIn)
      plan.events = try minimiser.minimised()
      print("\nmade as small as it goes (\(minimiser.tries) tries), it happens in this world too:")
    }
    let world = try World(plan, standIn: standIn, isTalking: true)
    try world.run()
    print("\(plan.nodes) nodes, \(plan.servers) servers, \(plan.phones.count) phones")
    for event in plan.events { print("  \(event)") }
    print("\n" + world.log.joined(separator: "\n"))
    let only = plan.events.map { "\($0.number)" }.joined(separator: ",")
    print(
      """

      Again: Scripts/proof/worlds --seed \(plan.seed)\(steps.map { " --steps \($0)" } ?? "")\(story.map { " --story \($0)" } ?? "")\(hasNextcloud ? " --nextcloud" : "")\(hasChat ? " --chat" : "")\(hasNextcloudServer ? " --nextcloud-server" : "")\(hasGateway ? " --gateway" : "")\(isHostile ? " --hostile" : "")\(hasUpstream ? " --upstream" : "")\(hasTenants ? " --tenants" : "") --only \(only) --log\
      \(standIn.name == "none" ? "" : " --stand-in \(standIn.name)")
      """)
  }

  /// Runs asynchronous work until it ends.
  private static func wait(_ body: @escaping @Sendable () async throws -> Void) throws {
    final class Ending: @unchecked Sendable { var result: Result<Void, any Error>? }
    let ending = Ending()
    Task {
      do {
        try await body()
        ending.result = .success(())
      } catch { ending.result = .failure(error) }
    }
    while ending.result == nil {
      while VirtualExecutor.shared.step() {}
      if ending.result == nil { _ = VirtualExecutor.shared.pass(upTo: .max - 1) }
    }
    try ending.result?.get()
  }
}

extension World.Figures {
  mutating func add(_ other: Self) {
    calls += other.calls
    promises += other.promises
    arrivals += other.arrivals
    kills += other.kills
  }
}
