import Foundation
import HTTP
import NIOCore
import NIOPosix
import ProviderSimulator
import Synchronization
import TestSupport
import Testing

@testable import Demo

/// Tests that commands believe only the service, and show a token to nobody: while the service is stopped, every user of
/// the machine may listen on `admin.port`.
@Suite struct HostileListenerTests {
  private static let token = "an-operators-token-of-some-length"

  private var place: Workplace { Fixture.current }

  /// A program that listens, answers every call as a service that is well, and keeps what it was sent.
  private struct Eavesdropper {
    let port: Int
    private let heard: Heard

    static func test(_ body: (Eavesdropper) async throws -> Void) async throws {
      let heard = Heard()
      let channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
        .childChannelInitializer { channel in
          channel.eventLoop.makeCompletedFuture {
            try channel.pipeline.syncOperations.addHandler(Handler(heard: heard))
          }
        }
        .bind(host: "127.0.0.1", port: 0).get()
      let port = try #require(channel.localAddress?.port)
      try await withCleanUp {
        try await body(Eavesdropper(port: port, heard))
      } cleanUp: {
        try await channel.close()
      }
    }

    private init(port: Int, _ heard: Heard) { (self.port, self.heard) = (port, heard) }

    /// Whether something was asked, but never with the token.
    var hasHeardNoToken: Bool {
      let heard = heard.text.withLock { $0 }
      return !heard.isEmpty && !heard.contains(token) && !heard.lowercased().contains("authorization")
    }

    private final class Heard: Sendable {
      let text = Mutex("")
    }

    private final class Handler: ChannelInboundHandler, Sendable {
      typealias InboundIn = ByteBuffer
      let heard: Heard

      init(heard: Heard) { self.heard = heard }

      func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let text = String(buffer: unwrapInboundIn(data))
        heard.text.withLock { $0 += text }
        guard text.contains("\r\n\r\n") else { return }
        let body = """
          {"status":"ok","held_address":"192.0.2.1:80","deliveries":[{"taken_at":"2026-01-01T00:00:00Z"}],\
          "checks":{"database":{"status":"failing","meaning":"a lie","advice":"another"}}}
          """
        let answer = """
          HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: \(body.utf8.count)\r\n\
          Connection: close\r\n\r\n\(body)
          """
        context.writeAndFlush(NIOAny(ByteBuffer(string: answer)), promise: nil)
      }
    }
  }

  @Test(.place(begun: true)) func `Doctor and routes tell who listens nothing, and believe nothing of it`()
    async throws
  {
    try await Eavesdropper.test { other in
      let options = ["--admin.port", "\(other.port)", "--admin.token", Self.token]
      let doctor = try await place.run(["doctor", "--json", "--http.port", "0"] + options + Mistake.nowhere)
      let findings = try doctor.json["findings"]?.elements ?? []
      let admin = try #require(findings.first { $0["check"] == "admin" })
      #expect(admin["status"] == "fault" && doctor.status == 1)
      #expect(admin["detail"]?.string?.contains("has not proved to be this service") == true, "\(admin)")
      #expect(!doctor.output.contains("a lie") && !doctor.output.contains("192.0.2.1"))

      let routes = try await place.run(["routes", "list", "--json"] + options)
      #expect(routes.errors.contains("has not proved to be this service"), "\(routes.errors)")
      let listed = try routes.json["routes"]?.elements ?? []
      #expect(listed.count == 1 && listed[0]["status"] == JSON.null, "\(listed)")
      #expect(other.hasHeardNoToken)
    }
  }

  @Test func `A phone tells who listens nothing`() async throws {
    try await Stage.test { stage in
      try await Eavesdropper.test { other in
        try await stage.serve { running, server in
          let phone = try await stage.place.run(
            "device", "--org-id", server.id, "--org-key", server.key, "--realm", server.realm, "--public-key",
            stage.bouncerKey, "--bouncer", running.url("public"), "--simulator", stage.simulator.fcmEndpoint,
            "--ca-file", "Keys/ca.pem", "--send", "Lunch?", "--count", "1", "--json", "--admin.port",
            "\(other.port)", "--admin.token", Self.token)
          #expect(try phone.json["delivery"] == .null, "\(phone.errors)")
          #expect(other.hasHeardNoToken)
        }
      }
    }
  }

  @Test(.place(begun: true)) func `A process that calls itself serve leads doctor nowhere`() async throws {
    try place.write("serve", "read line\n")
    let fake = Process()
    fake.standardInput = Pipe()
    fake.executableURL = URL(filePath: "/bin/bash")
    fake.currentDirectoryURL = place.folder
    fake.arguments = [
      "-c",
      "exec -a push-bouncer sh serve --http-port 1 --database-url sqlite:elsewhere.sqlite --set admin.token=hunter2",
    ]
    try fake.run()
    defer {
      kill(fake.processIdentifier, SIGKILL)
      fake.waitUntilExit()
    }
    let commandLine = "/proc/\(fake.processIdentifier)/cmdline"
    await eventually("its name") {
      (try? String(contentsOfFile: commandLine, encoding: .utf8))?.hasPrefix("push-bouncer\0serve\0") == true
    }
    let doctor = try await place.run(["doctor", "--json"] + Mistake.nowhere)
    let findings = try doctor.json["findings"]?.elements ?? []
    #expect(!findings.contains { $0["check"] == "service" }, "\(findings)")
    #expect(findings.first { $0["check"] == "database" }?["detail"] == "sqlite:push-bouncer.sqlite")
  }
}
