import Foundation
import HTTPTypes
import Hummingbird
import Synchronization
import TestSupport
import Wire

/// A push proxy whose answers are the test's, on a port of its own.
final class PlayedProxy: Sendable {
  struct Call: Sendable {
    let path: String
    let headers: HTTPFields
    let body: String

    /// The entries, each with its name in the form.
    var fields: [Form.Field] { Form.parse(Array(body.utf8)) ?? [] }
    var entries: [JSON] { fields.compactMap { try? JSON.parse($0.value) } }
    var identifiers: [String] { entries.compactMap { $0["deviceIdentifier"]?.string } }
  }

  typealias Reply = @Sendable (Call) async throws -> Response

  private struct State {
    var calls: [Call] = []
    var reply: Reply = { _ in PlayedProxy.response(200, #"{"unknown":[],"failed":0}"#) }
  }

  private final class Stage: Sendable {
    let state = Mutex(State())
  }

  let port: Int
  private let stage: Stage

  private init(port: Int, stage: Stage) {
    self.port = port
    self.stage = stage
  }

  var url: String { "http://127.0.0.1:\(port)" }

  /// What it was asked so far.
  var calls: [Call] { stage.state.withLock { $0.calls } }

  func reply(_ reply: @escaping Reply) { stage.state.withLock { $0.reply = reply } }

  func reply(_ status: Int, _ body: String) { reply { _ in Self.response(status, body) } }

  static func response(_ status: Int, _ body: String, headers: HTTPFields = [:]) -> Response {
    Response(
      status: .init(code: status), headers: headers, body: ResponseBody(byteBuffer: ByteBuffer(string: body)))
  }

  /// Says of these phones that it does not know them.
  static func unknown(_ identifiers: [String], failed: Int) -> String {
    JSON.object(["unknown": .array(identifiers.map(JSON.string)), "failed": .integer(Int64(failed))]).text
  }

  /// Runs a test beside a proxy.
  static func run(_ test: @escaping @Sendable (PlayedProxy) async throws -> Void) async throws {
    let stage = Stage()
    let router = Router()
    let answer: @Sendable (Request, BasicRequestContext) async throws -> Response = { request, _ in
      let body = String(buffer: try await request.body.collect(upTo: 16 << 20))
      let call = Call(path: request.uri.string, headers: request.headers, body: body)
      let reply = stage.state.withLock { state in
        state.calls.append(call)
        return state.reply
      }
      return try await reply(call)
    }
    for method in [HTTPRequest.Method.post, .get] { router.on("/**", method: method, use: answer) }
    try await listening(router) { port in try await test(PlayedProxy(port: port, stage: stage)) }
  }
}

/// Holds whoever waits at it until it is opened.
final class Barrier: Sendable {
  private struct State {
    var isOpen = false
    var waiting: [CheckedContinuation<Void, Never>] = []
  }

  private let state = Mutex(State())

  func wait() async {
    await withCheckedContinuation { continuation in
      let isOpen = state.withLock { state in
        if !state.isOpen { state.waiting.append(continuation) }
        return state.isOpen
      }
      if isOpen { continuation.resume() }
    }
  }

  func open() {
    let waiting = state.withLock { state in
      state.isOpen = true
      defer { state.waiting = [] }
      return state.waiting
    }
    for continuation in waiting { continuation.resume() }
  }
}
