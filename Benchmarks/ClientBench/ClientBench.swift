import AsyncHTTPClient
import Foundation
import HTTPClient
import Logging
import NIOCore
import NIOHPACK
import NIOHTTP1
import NIOPosix
import NIOSSL

/// A client alone, over one HTTP/2 connection, for `Benchmarks/run --clients`: ours, or AsyncHTTPClient.
///
///     client-bench own|async-http-client ORIGIN CA_FILE PATHS_FILE BODY_FILE [NAME:VALUE ...]
///
/// For each line `CONCURRENCY SECONDS` of its input it sends for that long, and prints a line of JSON: how many requests
/// were answered 200, and seconds.
@main
enum ClientBench {
  /// Sends the body to a path of the origin, and returns the answer's status.
  typealias Send = @Sendable (_ path: String) async throws -> Int

  static func main() async throws {
    let words = CommandLine.arguments
    guard words.count > 5, let origin = URL(string: words[2]) else { throw CocoaError(.fileNoSuchFile) }
    let paths = try String(contentsOfFile: words[4], encoding: .utf8).split(separator: "\n").map(String.init)
    let body = ByteBuffer(bytes: try Data(contentsOf: URL(fileURLWithPath: words[5])))
    let headers = words[6...].map { word in
      let parts = word.split(separator: ":", maxSplits: 1)
      return (String(parts[0]).lowercased(), String(parts[1]))
    }
    let send =
      words[1] == "own"
      ? try own(origin, caFile: words[3], headers, body)
      : asyncHTTPClient(origin, caFile: words[3], headers, body)
    while let line = readLine() {
      let numbers = line.split(separator: " ").compactMap { Double($0) }
      try await measure(Int(numbers[0]), seconds: numbers[1], paths, send)
    }
  }

  private static func own(
    _ origin: URL, caFile: String, _ headers: [(String, String)], _ body: ByteBuffer
  ) throws -> Send {
    let (host, port) = (origin.host() ?? "", origin.port ?? 443)
    let pool = HTTP2Pool(
      connector: Connector(host: host, port: port, tls: try Connector.tls(caFile: caFile)),
      group: MultiThreadedEventLoopGroup.singleton, limits: .init(connections: 1),
      logger: Logger(label: "bench") { _ in SwiftLogNoOpLogHandler() })
    let start = [(":method", "POST"), (":scheme", "https"), (":authority", "\(host):\(port)")]
    return { path in
      let request = ProviderRequest(headers: HPACKHeaders(start + [(":path", path)] + headers), body: body)
      switch await pool.send(request, deadline: .now() + .seconds(30)) {
      case .ended(let result): return try result.get().status
      case .underWay: return 0
      }
    }
  }

  private static func asyncHTTPClient(
    _ origin: URL, caFile: String, _ headers: [(String, String)], _ body: ByteBuffer
  ) -> Send {
    var settings = AsyncHTTPClient.HTTPClient.Configuration()
    var tls = TLSConfiguration.makeClientConfiguration()
    tls.trustRoots = .file(caFile)
    settings.tlsConfiguration = tls
    let client = AsyncHTTPClient.HTTPClient(configuration: settings)
    return { path in
      var request = HTTPClientRequest(url: origin.absoluteString + path)
      request.method = .POST
      request.headers = HTTPHeaders(headers)
      request.body = .bytes(body)
      let response = try await client.execute(request, timeout: .seconds(30))
      _ = try await response.body.collect(upTo: 1 << 16)
      return Int(response.status.code)
    }
  }

  private static func measure(
    _ callers: Int, seconds: Double, _ paths: [String], _ send: @escaping Send
  ) async throws {
    let start = ContinuousClock.now
    let end = start + .seconds(seconds)
    let times = try await withThrowingTaskGroup(of: [Double].self) { group in
      for caller in 0..<callers {
        group.addTask {
          var times: [Double] = []
          var number = caller
          while case let began = ContinuousClock.now, began < end {
            let status = try await send(paths[number % paths.count])
            guard status == 200 else { throw URLError(.badServerResponse) }
            number += callers
            times.append((ContinuousClock.now - began) / .seconds(1))
          }
          return times
        }
      }
      return try await group.reduce(into: []) { $0 += $1 }
    }.sorted()
    let elapsed = (ContinuousClock.now - start) / .seconds(1)
    let (p50, p99) = (times[times.count / 2], times[times.count * 99 / 100])
    let line = #"{"requests":\#(times.count),"elapsed":\#(elapsed),"p50":\#(p50),"p99":\#(p99)}"#
    // Standard output is buffered by `print`.
    FileHandle.standardOutput.write(Data("\(line)\n".utf8))
  }
}
