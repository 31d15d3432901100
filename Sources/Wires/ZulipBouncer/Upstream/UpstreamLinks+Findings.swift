import Basics
import Foundation
package import Platform
package import Providers
import Registrations

extension UpstreamLinks {
  private static let timeout = Duration.seconds(10)

  /// Checks for `doctor` that the upstream bouncer accepts the id and key of each chat server with a link. Sends no
  /// notification.
  ///
  /// - Parameter providers: the settings of the providers, with the upstream bouncer of ``provider(at:)``.
  package func findings(_ providers: PushProviders.Configuration) async -> [Finding] {
    let servers = RemoteServers(database: database, storageKey: storageKey, now: now)
    do {
      let providers = try PushProviders(configuration: providers)
      guard let upstream = providers.upstream else { return [] }
      let check = "\(upstream.route)"
      var findings: [Finding] = []
      for link in try await all() {
        let server = try await servers.find(id: link.server)?.hostname ?? "\(link.server)"
        findings.append(await finding(check, server, link, upstream))
      }
      await providers.shutdown(within: .zero)
      for (server, since) in try await serversWithUnknownDevices() {
        findings.append(
          .warning(
            check,
            "\(server) has named devices since \(since.formatted(.iso8601)) that are not known here: the upstream bouncer may know them",
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
    _ check: String, _ server: String, _ link: Link, _ upstream: RouteSender
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
      case 401 where link.nextKey != nil:
        return .warning(
          check,
          "\(server): which of two keys it has there is not known yet: a change was interrupted, or enable said again",
          advice: "no action needed at first: its next report tries the other one; ask again in a minute")
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
