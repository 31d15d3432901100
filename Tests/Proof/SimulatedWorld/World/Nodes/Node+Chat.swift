import Foundation
import HTTP
import Hummingbird
import Logging
import NIOCore
import NextcloudServer
import Operator
import Providers
import Registrations
import SQL
import Sealing
import ZulipServer

extension Node {
  /// The built-in chat server and the backend API that the chat calls.
  struct ChatSide: Sendable {
    let addRoutes: @Sendable (Routes) -> Void
    let bringForward: @Sendable (_ isTimeSetBack: Bool) async throws -> Void
    let run: @Sendable () async -> Void
  }

  /// The chat-server side, if the world has a chat, also one with Nextcloud's apps. It calls its bouncer over the
  /// simulated network: any node may take the call, and the call may fail.
  func chatSide(
    _ settings: Configuration, _ nextcloud: NextcloudSender?, database: any Database, storageKey: StorageKey,
    now: @escaping @Sendable () -> Date, isClockTrusted: @escaping @Sendable () -> Bool, logger: Logger
  ) -> ChatSide {
    let accounts = AccountStore(database: database, storageKey: storageKey, now: now)
    let life = life
    let bouncer = BouncerClient { [world] call in
      guard life.isAlive, let answer = await world.chat?.passOn(call), life.isAlive else {
        throw BouncerError.unreachable(.connectFailed)
      }
      return BouncerClient.Response(status: answer.status, body: ByteBuffer(string: answer.text))
    }
    let events = EventNotifier()
    let devices = Devices(
      database: database, storageKey: storageKey, localServer: nil, now: now, changed: events.wake)
    let link = BouncerLink(
      bouncer, accounts: accounts, devices: devices, isClockTrusted: isClockTrusted, logger: logger)
    let notifier = Notifier(devices: devices, bouncer: link)
    let server = ZulipServerRoutes(
      settings.server, http: settings.http, accounts: accounts, eventNotifier: events, notifier: notifier)
    let backend = BackendRoutes(
      accounts: accounts, devices: devices, token: Chat.backendToken,
      notify: { user, message in
        if let nextcloud, let part = message.nextcloud {
          return [("nextcloud", .success(try await nextcloud.notify(user, NextcloudMessage(part)).json))]
        }
        let sent = try await notifier.notify(user, try message.zulip?.members())
        return sent.encrypted.map { [("zulip", $0.map(\.json))] } ?? []
      }, realmsChanged: link.uploadRealms)
    return ChatSide(
      addRoutes: {
        server.addRoutes(to: $0)
        backend.addRoutes(to: $0)
      }, bringForward: devices.jobs.bringForward
    ) { [world] in
      guard world.chat != nil else { return }
      await withTaskGroup { group in
        group.addTask { await events.watch(devices, logger: logger) }
        group.addTask { await link.run() }
      }
    }
  }
}
