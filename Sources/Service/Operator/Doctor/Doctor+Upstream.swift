internal import Foundation
internal import Migrations
internal import Platform
internal import Providers
internal import Registrations
internal import SQL
internal import Sealing
internal import Settings
internal import Upstream

extension Doctor {
  private static let timeout = Duration.seconds(10)

  /// Asks the upstream bouncer with the id and key of each chat server that has a link there. Sends nothing.
  func linkFindings() async -> [Finding] {
    guard configuration.upstream.url != nil else { return [] }
    guard let storageKey = try? KeyFolder.existingStorageKey(in: configuration.keys.directory),
      let database = await visit.existing(),
      (try? await Migrator.version(of: database)) == Schema.version
    else { return [.skipped("upstream", "the database cannot be used")] }
    let links = UpstreamLinks(database: database, storageKey: storageKey, now: now)
    let servers = RemoteServers(database: database, storageKey: storageKey, now: now)
    do {
      var settings = PushProviders.Configuration(configuration)
      settings.upstream = links.provider(at: configuration.upstream.url)
      let providers = try PushProviders(configuration: settings)
      guard let upstream = providers.upstream else { return [] }
      let check = "\(upstream.route)"
      var findings: [Finding] = []
      for link in try await links.all() {
        let server = try await servers.find(id: link.server)?.hostname ?? "\(link.server)"
        findings.append(await finding(check, server, link, upstream))
      }
      await providers.shutdown(within: .zero)
      for (server, since) in try await links.strangers() {
        findings.append(
          .warning(
            check,
            "\(server) has named devices since \(since.formatted(.iso8601)) that nobody here knows: they may be upstream",
            advice: UpstreamLinks.adviceToEnable(server)))
      }
      guard findings.isEmpty else { return findings }
      return [
        .good(
          check,
          "no chat server has a link there: push-bouncer server upstream enable HOSTNAME makes one")
      ]
    } catch {
      return [.bad("upstream", Fault(error))]
    }
  }

  private func finding(
    _ check: String, _ server: String, _ link: UpstreamLinks.Link, _ upstream: RouteSender
  ) async -> Finding {
    guard link.key != nil else {
      return .warning(
        check, "the key of \(server) is not known yet",
        advice: "no action needed: it is kept when the server calls next")
    }
    do {
      let answer = try await upstream.call(
        UpstreamCall(get: "server/analytics/status"), of: .chatServer(link.server), within: Self.timeout)
      func bad(_ reason: Reason) -> Finding {
        let explanation = reason.explanation(at: .upstream)
        return .bad(check, "\(server): \(explanation.meaning)", advice: explanation.advice)
      }
      switch answer.status {
      case _ where answer.failure != nil:
        return .bad(
          check,
          "\(server): what is at upstream.url answers with status \(answer.status) (\(answer.failure ?? .unknown))",
          advice: "see whether upstream.url is the address of a bouncer")
      case 200 where link.refusedAt != nil: return bad(.upstreamDisallows)
      case 200: return .good(check, "accepts the id and key of \(server)")
      case 401: return bad(.upstreamKeyRefused)
      default:
        return .bad(
          check, "\(server): it answers with status \(answer.status)",
          advice: "see whether upstream.url is the address of a bouncer")
      }
    } catch {
      let explanation = (error.outcome.reason ?? .unknown).explanation(at: .upstream)
      return .bad(check, "\(server): \(explanation.meaning)", advice: explanation.advice)
    }
  }
}
