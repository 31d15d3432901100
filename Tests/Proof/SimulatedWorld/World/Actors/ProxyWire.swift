import Foundation
import HTTP
import HTTPTypes
import NextcloudServer
import Sealing

/// The way from the built-in Nextcloud server to a push proxy in another process: calls may fail, be slow or lose
/// their answers, and any node takes them.
///
/// Unchecked: the world has one thread.
final class ProxyWire: @unchecked Sendable {
  /// A push in a request, as the proxy reads it.
  struct Entry {
    /// Device identifier and ciphertext, in base64.
    let device, subject: String

    init(_ text: String) {
      func value(_ name: String) -> String {
        (text.between("\"\(name)\":\"", "\"") ?? "").replacing(#"\/"#, with: "/")
      }
      (device, subject) = (value("deviceIdentifier"), value("subject"))
    }
  }

  /// A request with a push.
  private struct Post {
    let life: Life
    let time: Double
    /// When the sender heard of its end, and whether the proxy had taken the push.
    var end: (time: Double, isTaken: Bool)?
  }

  /// Why nothing more may be sent to a device, and who has to know.
  private struct Ending {
    let promise: String
    let time: Double
    let life: Life?
  }

  /// Its current faults, the latest last.
  var troubles: [Trouble] = [] { didSet { changedAt = world.time } }
  private var changedAt = -1000.0
  /// When it last failed.
  var troubleAt: Double { troubles.isEmpty ? changedAt : world.time }
  private unowned let world: World
  private var random: WorldRandom
  /// By ciphertext.
  private var posts: [String: [Post]] = [:]
  /// By device identifier.
  private var endings: [String: Ending] = [:]
  /// By device identifier: until when a call that registers it may have taken effect.
  private var registered: [String: Double] = [:]

  /// How long the sender has to keep to what it has heard, in seconds.
  private static let settling = 15.0
  /// How often a push may be sent in a minute: with growing pauses, more are as good as impossible.
  private static let mostInMinute = 12

  init(world: World, seed: UInt64) {
    self.world = world
    random = WorldRandom(seed: seed, "way to the proxy")
  }

  /// A phone registers with the server, which may take effect until `seconds` have passed.
  func registers(_ device: String, for seconds: Double) {
    registered[device] = world.time + seconds
    endings[device] = nil
  }

  /// A phone has signed out.
  func leaves(_ device: String) {
    endings[device] = Ending(promise: "who has left is told nothing", time: world.time, life: nil)
  }

  /// A node's request; nil: no answer.
  func post(_ call: ProxyClient.Call, from life: Life) async -> Answer? {
    let entries = (Form.parse(call.body) ?? []).map { Entry($0.value) }
    var places: [(subject: String, index: Int)] = []
    for entry in entries {
      check(entry, from: life)
      places.append((entry.subject, posts[entry.subject, default: []].count))
      posts[entry.subject, default: []].append(Post(life: life, time: world.time))
    }
    let passed = await pass(call, from: life)
    guard life.isAlive else { return nil }
    let answer = world.standIn.proxyAnswer(entries.map(\.device), passed)
    world.note(
      "\(life.node): \(entries.count) pushes to the proxy: \(answer.map { "\($0.status)" } ?? "no answer")")
    for (subject, index) in places {
      posts[subject]?[index].end = (world.time, answer.map { $0.status < 500 } ?? false)
    }
    for device in passed?.json["unknown"]?.strings ?? [] {
      // What was made before the phone registered again says nothing about it.
      let first = entries.filter { $0.device == device }.compactMap { posts[$0.subject]?.first?.time }.max()
      guard let first, first > registered[device, default: -1] else { continue }
      endings[device] = Ending(promise: "what is unknown is not sent to", time: world.time, life: life)
    }
    return answer
  }

  private func pass(_ call: ProxyClient.Call, from life: Life) async -> Answer? {
    func wait(_ seconds: ClosedRange<Double>) async {
      try? await Task.sleep(for: .seconds(random.seconds(seconds)))
    }
    let trouble = troubles.last
    switch trouble {
    case .silent: await wait(30...30)
    case .slow: await wait(1...10)
    default: await wait(0.005...0.08)
    }
    switch trouble {
    case .unreachable, .silent: return nil
    case .failing(let status): return Answer(status: status, text: "<html><body></body></html>")
    default: break
    }
    guard life.isAlive else { return nil }
    let isLost = trouble == .losingAnswers && random.chance(0.5)
    if isLost, random.chance(0.3) { return nil }
    var headers: HTTPFields = [.contentType: "application/x-www-form-urlencoded"]
    headers[.forwardedFor] = "198.51.100.2"
    let answer = await world.call(
      world.balanced(&random), "notifications", "/notifications", headers: headers, body: call.body
    ).answer
    if trouble == .late { await wait(4...14) }
    return isLost ? nil : answer
  }

  // MARK: Promises

  private func check(_ entry: Entry, from life: Life) {
    let now = world.time
    if let ending = endings[entry.device], now > ending.time + Self.settling, world.database.isWell,
      world.ledger.databaseTroubleAt < ending.time - Self.settling,
      !world.nodes.contains(where: \.life.isCut),
      ending.life.map({ $0.isAlive && !$0.disturbances.contains { $0 >= ending.time } }) ?? true
    {
      world.violate(
        ending.promise, "\(life.node) sends to a device that ended \(Int(now - ending.time)) s ago")
    }
    let formers = posts[entry.subject, default: []]
    // A push may have been queued twice if the answer to a commit was lost.
    guard let first = formers.first, world.ledger.clockTroubleAt < now - World.clockMemory,
      world.ledger.lostCommitAt < first.time - Self.settling
    else { return }
    if formers.contains(where: { $0.end == nil && $0.life.isAlive }) {
      world.violate("nothing is sent before its time", "\(life.node) sends what another call is about to")
    }
    if formers.count(where: { now - $0.time < 60 }) >= Self.mostInMinute {
      world.violate(
        "nothing is sent before its time", "\(life.node) sends a push to the proxy again and again")
    }
  }

  /// Whether the server may send a push to the proxy again, although it has arrived: it does not know, or could not
  /// store, that the proxy has taken it, or a node whose clock is wrong takes it over.
  func mayRepeat(_ subject: [UInt8]?, writtenAt written: Double) -> Bool {
    guard let posts = posts[Base64.encode(subject ?? [])] else {
      // It was handed over in the process.
      return max(world.ledger.databaseTroubleAt, world.ledger.killedAt, world.ledger.clockTroubleAt) > written
    }
    return posts.contains { post in
      if world.ledger.clockTroubleAt > post.time - World.clockMemory { return true }
      guard let end = post.end, end.isTaken else { return true }
      return !post.life.isAlive || post.life.disturbances.contains { $0 >= end.time - 0.001 }
    }
  }
}
