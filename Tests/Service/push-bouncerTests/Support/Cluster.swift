import Foundation
import NIOCore
import NIOPosix
import Synchronization
import Testing

@testable import Demo

/// An address of this machine that can be cut off, as a network is: what is on its way is lost, and nobody
/// is told. Takes privileges.
struct Network {
  let address: String

  static let isAvailable = succeeds("/usr/sbin/ip", "route", "show", "table", "local") && geteuid() == 0

  func cut() throws { try #require(route("add")) }
  func mend() { _ = route("del") }

  private func route(_ change: String) -> Bool {
    succeeds("/usr/sbin/ip", "route", change, "blackhole", "\(address)/32", "table", "local")
  }
}

/// Runs a command of this machine's; false also where there is none.
func succeeds(_ command: String...) -> Bool {
  let process = Process()
  process.executableURL = URL(filePath: command[0])
  process.arguments = Array(command.dropFirst())
  process.standardOutput = FileHandle.nullDevice
  process.standardError = FileHandle.nullDevice
  guard (try? process.run()) != nil else { return false }
  process.waitUntilExit()
  return process.terminationStatus == 0
}

/// A port that nothing listens on at this moment, and that no connection is made from: those have higher ones.
func freePort() async throws -> Int {
  for _ in 0..<100 {
    let port = Int.random(in: 20_000..<32_768)
    let bootstrap = ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
    guard let channel = try? await bootstrap.bind(host: "127.0.0.1", port: port).get() else { continue }
    try await channel.close()
    return port
  }
  throw POSIXError(.EADDRINUSE)
}

/// Several nodes as one service: each call goes to the next one.
final class RoundRobin: Sendable {
  private struct State {
    var nodes: [Int: ChatServer] = [:]
    var next = 0
    var calls: [Int: Int] = [:]
  }

  private let state = Mutex(State())

  func add(_ number: Int, _ node: ChatServer) { state.withLock { $0.nodes[number] = node } }

  /// Takes a node out, as a balancer does with one that is not ready; what has begun there goes on.
  @discardableResult
  func remove(_ number: Int) -> ChatServer? { state.withLock { $0.nodes.removeValue(forKey: number) } }

  /// How many calls are under way at a node.
  func calls(at number: Int) -> Int { state.withLock { $0.calls[number] ?? 0 } }

  /// Makes a call at the next node.
  func call<Result>(_ body: (ChatServer) async throws -> Result) async throws -> Result {
    let chosen = state.withLock { state -> (Int, ChatServer)? in
      state.next += 1
      let numbers = state.nodes.keys.sorted()
      guard !numbers.isEmpty else { return nil }
      let number = numbers[state.next % numbers.count]
      state.calls[number, default: 0] += 1
      return state.nodes[number].map { (number, $0) }
    }
    guard let (number, node) = chosen else { throw CancellationError() }
    defer { state.withLock { $0.calls[number, default: 0] -= 1 } }
    return try await body(node)
  }
}

/// The nodes' processes.
final class Supervisor: Sendable {
  private let state = Mutex((nodes: [Int: Running](), isOver: false))
  var isOver: Bool { state.withLock { $0.isOver } }
  func started(_ number: Int, _ running: Running) {
    let isOver = state.withLock { state in
      state.nodes[number] = running
      return state.isOver
    }
    if isOver { running.send(SIGTERM) }
  }
  func running(_ number: Int) -> Running? { state.withLock { $0.nodes[number] } }
  func end() {
    let nodes = state.withLock { state in
      state.isOver = true
      return state.nodes.values
    }
    for node in nodes { node.send(SIGTERM) }
  }
}

/// Whether something is over, for those that go on until then.
final class Over: Sendable {
  private let isOver = Mutex(false)
  var value: Bool { isOver.withLock { $0 } }
  func set() { isOver.withLock { $0 = true } }
}
