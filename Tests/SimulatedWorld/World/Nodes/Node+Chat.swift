import Foundation
import HTTP
import Hummingbird
import Logging
import NIOCore
import Registrations
import SQL
import Sealing
import ZulipServer

extension Node {
  /// The built-in chat server, with the part that the chat calls.
  struct ChatSide: Sendable {
    let addRoutes: @Sendable (Router<WireContext>) -> Void
    let bringForward: @Sendable (_ isTimeSetBack: Bool) async throws -> Void
    let run: @Sendable () async -> Void
  }

  /// The chat-server side, where the world has a chat. Its bouncer is reached as another program's is: through calls that
  /// any node may take, and that break as calls do.
  func chatSide(
    database: any Database, storageKey: StorageKey, now: @escaping @Sendable () -> Date,
    mayExpire: @escaping @Sendable () -> Bool, logger: Logger
  ) -> ChatSide {
    let accounts = AccountStore(database: database, storageKey: storageKey, now: now)
    let life = life
    let bouncer = BouncerClient { [world] call in
      guard life.isAlive, let answer = await world.chat?.passOn(call), life.isAlive else {
        throw BouncerError.unreachable
      }
      return BouncerClient.Answer(status: answer.status, body: ByteBuffer(string: answer.text))
    }
    let events = EventNotifier()
    let devices = Devices(
      database: database, storageKey: storageKey, localServer: nil, now: now, changed: events.ring)
    let realms = RealmUpload(accounts: accounts, bouncer: bouncer, now: now, logger: logger)
    let notifier = Notifier(devices: devices, bouncer: (client: bouncer, realms: realms))
    let registrar = Registrar(
      devices: devices, bouncer: bouncer, realms: realms, now: now, mayExpire: mayExpire, logger: logger)
    let server = ZulipServerRoutes(
      configuration: .init(rateLimitPerUser: nil, maximumBodyBytes: 1 << 20),
      dependencies: .init(
        accounts: accounts, devices: devices, eventNotifier: events, registrar: registrar, unregistrar: nil,
        notifier: notifier, now: now))
    let backend = BackendRoutes(
      accounts: accounts, devices: devices, loginFlows: NextcloudLoginFlows(accounts: accounts),
      token: Chat.backendToken,
      notify: { user, message in
        let parts = Notifier.Message(encrypted: try message.zulip?.members(), legacy: nil)
        let outcome = try await notifier.notify(user, parts)
        return outcome.encrypted.map { [.init("zulip", $0.map(\.json))] } ?? []
      }, realmsChanged: realms.request, now: now)
    return ChatSide(
      addRoutes: {
        server.addRoutes(to: $0)
        backend.addRoutes(to: $0)
      }, bringForward: devices.bringForward
    ) {
      await withTaskGroup { group in
        group.addTask { await EventPoller(devices: devices, eventNotifier: events, logger: logger).run() }
        group.addTask { await realms.run() }
        group.addTask { await registrar.run() }
      }
    }
  }
}
