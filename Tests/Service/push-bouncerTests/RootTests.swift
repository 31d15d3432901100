import Foundation
import HTTP
import NIOCore
import NIOPosix
import Synchronization
import TestSupport
import Testing

/// Tests root's commands in the folder of a compromised service: files there must not make root do what the
/// service's user could not.
@Suite(.enabled(if: geteuid() == 0)) struct RootTests {
  /// The service's folder beside one that only root may enter.
  private struct Scene {
    let place: Workplace
    /// Root's own.
    let closed: URL

    static func test(
      begun: Bool = false, owner: (uid_t, gid_t) = (65534, 65534), _ body: (Scene) async throws -> Void
    ) async throws {
      try await withTemporaryFolder { closed in
        try #require(chmod(closed.path, 0o700) == 0)
        try await Workplace.test { place in
          if begun {
            #expect(try await place.run("init").status == 0)
            try FileManager.default.removeItem(at: place.folder.appending(path: "push-bouncer.yaml"))
          }
          let scene = Scene(place: place, closed: closed)
          for name in [""] + (try scene.names) {
            try #require(chown(place.folder.appending(path: name).path, owner.0, owner.1) == 0)
          }
          try await body(scene)
        }
      }
    }

    /// What is in the service's folder, without what the test keeps there.
    var names: [String] {
      get throws {
        try FileManager.default.subpathsOfDirectory(atPath: place.folder.path).filter {
          !$0.hasPrefix(".logs")
        }
      }
    }

    var closedNames: [String] {
      get throws { try FileManager.default.subpathsOfDirectory(atPath: closed.path).sorted() }
    }

    /// Root's own file.
    func keep(_ name: String, _ text: String) throws -> String {
      let file = closed.appending(path: name)
      try FileManager.default.createDirectory(
        at: file.deletingLastPathComponent(), withIntermediateDirectories: true)
      try Data(text.utf8).write(to: file)
      try #require(chmod(file.path, 0o600) == 0)
      return file.path
    }

    func link(_ name: String, to target: String) throws {
      try FileManager.default.createSymbolicLink(
        atPath: place.folder.appending(path: name).path, withDestinationPath: target)
    }

    func owner(_ path: String) throws -> [Int?] {
      let file = try FileManager.default.attributesOfItem(atPath: path)
      return [file[.ownerAccountID], file[.groupOwnerAccountID]].map { ($0 as? NSNumber)?.intValue }
    }
  }

  /// With and without a name in the system's list of users, and in a folder of root's group.
  @Test(
    arguments: [(65534, 65534, 65534), (12345, 23456, 23456), (12345, 0, 12345)] as [(uid_t, gid_t, Int)])
  func `What root makes in another's folder is the owner's`(user: uid_t, group: gid_t, expected: Int)
    async throws
  {
    try await Scene.test(owner: (user, group)) { scene in
      for command in [["init"], ["keys", "generate"], ["server", "add", "--hostname", "a.example.org"]] {
        let result = try await scene.place.run(
          command + (command == ["init"] ? [] : ["--config", "push-bouncer.yaml"]))
        #expect(result.status == 0, "\(result)")
      }
      let names = try scene.names
      #expect(names.contains("push-bouncer.yaml") && names.contains("Keys/storage.key"))
      for name in names {
        #expect(
          try scene.owner(scene.place.folder.appending(path: name).path) == [Int(user), expected], "\(name)")
      }
    }
  }

  @Test func `The service is its folder's owner too, with no group of root's`() async throws {
    try await Scene.test(begun: true) { scene in
      try await scene.place.serve { running in
        let tasks = "/proc/\(running.process.processIdentifier)/task"
        let threads = try FileManager.default.contentsOfDirectory(atPath: tasks).compactMap {
          try? String(contentsOfFile: "\(tasks)/\($0)/status", encoding: .utf8)
        }
        #expect(threads.count > 1)
        for status in threads {
          #expect(status.contains("\nUid:\t65534\t65534\t65534\t65534\n"))
          #expect(status.contains("\nGid:\t65534\t65534\t65534\t65534\n"))
          #expect(status.firstMatch(of: /\nGroups:\t65534 *\n/) != nil)
        }
      }
    }
  }

  @Test func `Links that are swapped in while a key is made give away nothing of root's`() async throws {
    try await Scene.test(begun: true) { scene in
      let secret = try scene.keep("secret", "root's")
      let folder = scene.place.folder.appending(path: "Keys/bouncer").path
      let isOver = Atomic(false)
      let thief = Thread {
        while !isOver.load(ordering: .relaxed) {
          guard let entries = opendir(folder) else { return }
          while let entry = readdir(entries) {
            let name = withUnsafeBytes(of: entry.pointee.d_name) {
              String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self)
            }
            guard name.hasSuffix(".new") else { continue }
            unlink("\(folder)/\(name)")
            symlink(secret, "\(folder)/\(name)")
          }
          closedir(entries)
        }
      }
      thief.start()
      for _ in 0..<5 { _ = try await scene.place.run("keys", "generate") }
      isOver.store(true, ordering: .relaxed)
      #expect(try scene.owner(secret) == [0, 0])
      #expect(try String(contentsOfFile: secret, encoding: .utf8) == "root's")
    }
  }

  @Test(arguments: ["push-bouncer.yaml", "push-bouncer.sqlite", "Keys"])
  func `A link that leads nowhere makes nothing where it leads`(_ name: String) async throws {
    try await Scene.test { scene in
      try scene.link(name, to: scene.closed.appending(path: "made").path)
      let result = try await scene.place.run("init")
      #expect(result.status == 1 && result.errors.contains("Error: "), "\(result)")
      #expect(try scene.closedNames.isEmpty)
    }
  }

  @Test func `A link to a folder of root's is not entered`() async throws {
    try await Scene.test { scene in
      _ = try scene.keep("bouncer/.keep", "")
      try scene.link("Keys", to: scene.closed.path)
      let result = try await scene.place.run("keys", "generate")
      #expect(result.status == 1)
      #expect(try scene.closedNames == ["bouncer", "bouncer/.keep"])
    }
  }

  /// Whose the folder and the file are, and the file's mode.
  @Test(arguments: [
    (65534, 65534, 0o644), (65534, 0, 0o644), (0, 65534, 0o600), (0, 0, 0o666), (0, 0, 0o660),
  ])
  func `A configuration that another may write is root's only if root names it`(
    folder: uid_t, file: uid_t, mode: mode_t
  ) async throws {
    try await Scene.test(owner: (folder, folder)) { scene in
      _ = try scene.keep("bouncer/.keep", "")
      try scene.place.write("push-bouncer.yaml", "keys.directory: \(scene.closed.path)\n")
      let path = scene.place.folder.appending(path: "push-bouncer.yaml").path
      try #require(chown(path, file, file) == 0 && chmod(path, mode) == 0)
      for command in [["keys", "generate"], ["init"], ["doctor"], ["server", "list"]] {
        let refused = try await scene.place.run(command)
        #expect(refused.status == 1)
        #expect((refused.errors + refused.output).contains("--config \(path)"), "\(refused)")
      }
      #expect(try scene.closedNames == ["bouncer", "bouncer/.keep"])
      #expect(!scene.place.exists("push-bouncer.sqlite"))
      let named = try await scene.place.run(
        "keys", "generate", "--config", "push-bouncer.yaml", "--database.url",
        "sqlite:\(scene.closed.path)/x.sqlite")
      #expect(named.status == 0, "\(named)")
      #expect(try scene.closedNames.count == 3)
    }
  }

  @Test
  func `Files that root names are read with root's rights, and written with the owner's, through no link`()
    async throws
  {
    try await Scene.test(begun: true) { scene in
      let place = scene.place
      let pair = "IyAgb25lIGtleSBvZiAzMiBieXRlcywgYW55IG9uZQ=="
      let secrets = try scene.keep("zulip-secrets.conf", "push_registration_encryption_keys = {}\n\(pair)\n")
      #expect(try await place.run("keys", "import", "--zulip-secrets", secrets).status == 0)

      _ = try scene.keep(
        "zulip/zilencer_remotezulipserver.csv",
        "id,uuid,api_key,hostname,contact_email,deactivated\n1,a1000000-0000-4000-8000-000000000001,\"\",chat.example.org,a@example.org,f\n"
      )
      _ = try scene.keep(
        "zulip/zilencer_remotepushdevicetoken.csv",
        "id,kind,token,last_updated,ios_app_id,user_id,user_uuid,server_id\n")
      let migrate = ["migrate", "zulip", "--from", scene.closed.appending(path: "zulip").path, "--rejects"]
      let result = try await place.run(migrate + ["rejects.csv"])
      #expect(result.status == 0, "\(result)")
      #expect(try place.text(of: "rejects.csv").hasPrefix("table,id,reason\nzilencer_remotezulipserver,1,"))
      let elsewhere = scene.closed.appending(path: "rejects.csv").path
      let refused = try await place.run(migrate + [elsewhere])
      #expect(refused.status == 1 && refused.errors.contains("--rejects names \(elsewhere)"), "\(refused)")
      #expect(refused.errors.contains("name a file that nobody may write"), "\(refused)")
      #expect(try scene.owner(place.folder.appending(path: "rejects.csv").path) == [65534, 65534])

      let precious = try scene.keep("precious", "root's")
      try scene.link("linked.csv", to: precious)
      try scene.link("inside", to: scene.closed.path)
      for rejects in ["linked.csv", "inside/precious"] {
        let result = try await place.run(migrate + [rejects])
        #expect(result.status == 1 && result.errors.contains(rejects), "\(result)")
        #expect(try String(contentsOfFile: precious, encoding: .utf8) == "root's")
      }
    }
  }

  @Test func `A database over TLS is reached although root's home is closed to the service's user`()
    async throws
  {
    let server = try await ServerBootstrap(group: .singletonMultiThreadedEventLoopGroup)
      .childChannelInitializer { $0.pipeline.addHandler(SpeaksTLS()) }
      .bind(host: "127.0.0.1", port: 0).get()
    let port = try #require(server.localAddress?.port)
    try await Scene.test(begun: true) { scene in
      let result = try await scene.place.run(
        "server", "list", "--database.url", "postgres://u:p@127.0.0.1:\(port)/x",
        environment: ["HOME": scene.closed.path])
      #expect(result.status == 1 && result.errors.contains("SSL"), "\(result)")
      #expect(!result.errors.contains(scene.closed.path), "\(result)")
    }
    try await server.close()
  }

  @Test func `Copying makes no database at the end of a link`() async throws {
    try await Scene.test(begun: true) { scene in
      try scene.link("new.sqlite", to: scene.closed.appending(path: "made").path)
      let copy = ["copy", "--from", "sqlite:push-bouncer.sqlite", "--to"]
      #expect(try await scene.place.run(copy + ["sqlite:new.sqlite"]).status == 1)
      #expect(try scene.closedNames.isEmpty)
      let other = try await scene.place.run(copy + ["sqlite:other.sqlite"])
      #expect(other.status == 0, "\(other)")
      #expect(try scene.owner(scene.place.folder.appending(path: "other.sqlite").path) == [65534, 65534])
    }
  }
}

/// A PostgreSQL server up to its answer that it speaks TLS; then it closes the connection.
private final class SpeaksTLS: ChannelInboundHandler, Sendable {
  typealias InboundIn = ByteBuffer
  typealias OutboundOut = ByteBuffer

  private let isAsked = Atomic(false)

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    if isAsked.exchange(true, ordering: .relaxed) {
      context.close(promise: nil)
    } else {
      context.writeAndFlush(wrapOutboundOut(ByteBuffer(string: "S")), promise: nil)
    }
  }
}
