import Foundation
import Logging
import Providers
import SQL

/// The promises that concern time: pauses have bounds, and what is wrong about a clock ends nothing.
extension World {
  /// The longest pause before another try, in seconds: a quarter of an hour, and up to a fifth more after an outage of
  /// Apple's.
  private static let longestPause = 1080.0
  /// The longest lease of an entry, in seconds.
  private static let lease = 75.0
  /// How long the outbox may take for what is due, in seconds.
  private static let slack = 60.0

  /// "Pauses have bounds": what waits is due within the longest pause, or soon after the time that a provider has
  /// named, and what is too old is given up.
  func checkPauses() {
    guard violation == nil,
      let row = server.rows("SELECT MAX(due_at) AS due_at, MIN(created_at) AS created_at FROM outbox").first,
      let due = try? row.optionalInt64("due_at"), let since = try? row.optionalInt64("created_at")
    else { return }
    func seconds(_ milliseconds: Int64) -> Double { Double(milliseconds) / 1000 - Self.epoch }
    // A clock that is ahead postpones as much further.
    let now = max(time, latestTime, nodes.map { time + $0.life.ahead() }.max() ?? 0)
    let latest = max(now + Self.longestPause, answersHeard.latestPause) + Self.slack
    if seconds(due) > latest {
      noteOutbox()
      return violate(
        "pauses have bounds",
        "a notification waits for \(Int(seconds(due) - time)) s more, which nobody asked for")
    }
    let most = Self.maximumAge + Self.longestPause + Self.lease + Self.slack
    let isWell = max(ledger.databaseTroubleAt, ledger.clockTroubleAt) < time - most - Self.clockMemory
    if isWell, seconds(since) < time - most, time > answersHeard.latestPause + Self.longestPause {
      noteOutbox()
      violate("what is over is removed", "a notification waits since \(Int(time - seconds(since))) s")
    }
  }

  /// How long nothing must have been wrong before a message is written that has to arrive at once, in seconds: longer
  /// than any request that is under way, and than its lease.
  private static let calm = 150.0
  /// How late a notification may be then, in seconds: a breaker pauses for 15 s at most.
  private static let longestDelayInCalm = 60.0
  /// How long it may take to record and tell what an answer has ended, in seconds.
  private static let recording = 90.0
  /// How long a token is paused that is always refused, in seconds; and how much later what waits for it is due.
  private static let (longestRefusal, afterRefusal) = (900.0, 310.0)

  /// "What is written once everything works again arrives at once." Calm worlds have a stricter promise.
  func checkPromptness(of label: String, _ arrival: Arrival) {
    guard violation == nil, !plan.isCalm, let written = ledger.messages[String(label.prefix { $0 != "." })],
      let phone = owners[arrival.push.token], !phone.isOfStore
    else { return }
    let delay = time - written
    guard delay > Self.longestDelayInCalm else { return }
    let provider = providers[phone.kind]
    let latestTrouble = max(
      provider?.troubles.isEmpty == false ? time : provider?.mendedAt ?? 0, ledger.databaseTroubleAt,
      ledger.killedAt, tenancy?.credentialsChangedAt ?? 0, nextcloudChat?.wire.troubleAt ?? 0)
    guard written > latestTrouble + Self.calm, written > ledger.clockTroubleAt + Self.clockMemory
    else { return }
    // A token that is refused is paused by itself.
    let refusal = answersHeard.refusedAt[arrival.push.token].map {
      max($0 + Self.longestRefusal, answersHeard.latestPause) + Self.afterRefusal
    }
    guard time > refusal ?? 0, written > answersHeard.latestPause || refusal != nil else { return }
    violate(
      "arrives at once when all is well",
      "\(label) arrives \(Int(delay)) s after it was written, although nothing was wrong any more"
    )
  }

  /// A registration has ended, or a notification was given up, as a node's log tells.
  func checkEnd(_ message: String, _ metadata: Logger.Metadata, by life: Life) {
    guard violation == nil else { return }
    if message == "notification given up", isClockDoubted(by: life) {
      violate("nothing expires at a doubted clock", "\(life.node) gives a notification up")
    }
    guard message == "registration ended" || message == "notification refused",
      case .string(let token)? = metadata["token"],
      case .string(let kind)? = metadata["kind"], case .string(let name)? = metadata["route"],
      !name.hasPrefix("\(Route.Provider.upstream)")
    else { return }
    let said = answersHeard.said[.init(life: life.number, subject: ledger.canonical(token)), default: [:]]
    func wasSaid(_ meaning: Meaning) -> Bool { said[meaning].map { time - $0 < Self.recording } ?? false }
    guard wasSaid(.dead) || wasSaid(.suspect) || message == "notification refused" && wasSaid(.refused) else {
      return violate(
        "an answer is taken for what it means", "\(message) (\(name)), and the provider said nothing like it")
    }
    guard message == "registration ended" else { return }
    // Apple's 410 names a time, which is not compared while the clock is doubted.
    if name.hasPrefix("apns"), !wasSaid(.suspect), isClockDoubted(by: life) {
      violate(
        "nothing expires at a doubted clock", "\(life.node) compares the time that Apple names with its clock"
      )
    }
    if !wasSaid(.dead), !answersHeard.proven.contains(.init(life: life.number, subject: "\(name) \(kind)")) {
      violate(
        "an unproven route ends nothing",
        "\(life.node) ends a registration for a refusal over \(name), where it has delivered nothing")
    }
  }

  /// Whether the clock of this run has jumped so lately that the service has to doubt it, whatever it has seen since.
  func isClockDoubted(by life: Life) -> Bool {
    // What was decided before it may be told a little later.
    guard let jump = life.jumpedAt,
      (ledger.databaseTroubleAt < jump - 30 ? 0.5..<590 : 10..<590).contains(time - jump)
    else { return false }
    // Another node whose clock agrees ends the doubt.
    return nodes.allSatisfy { $0.life === life || abs($0.life.skew - life.skew) > 70 }
  }
}
