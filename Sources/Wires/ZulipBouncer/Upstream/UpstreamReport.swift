import Basics
package import Foundation
package import Platform
import Providers

/// A chat server's upstream link, as the operator sees it.
package struct UpstreamReport: Sendable {
  package let link: UpstreamLinks.Link
  /// The upstream bouncer's host; nil if `upstream.url` is not set.
  package let host: String?
  /// Numbers of live registrations there that were made through this service.
  package let encrypted, legacy: Int64

  /// Returns nil if the server has no link.
  package init?(of server: Int64, _ links: UpstreamLinks, at host: String?) async throws {
    guard let link = try await links.link(of: server) else { return nil }
    self.link = link
    self.host = host
    (encrypted, legacy) = try await links.count(of: server)
  }

  /// The link's entry in `/admin`.
  package func fact(at now: Date) -> AdminFact {
    func age(_ date: Date) -> String { Phrase.duration(max(0, now.timeIntervalSince(date))) }
    var sentences = [
      AdminFact.Sentence(
        "\(Phrase.count(Int(encrypted), "encrypted registration")) and \(Phrase.number(legacy)) of old apps are registered there."
      )
    ]
    if host == nil {
      sentences.append(.init("upstream.url is not set: nothing is passed on.", isBad: true))
    } else if link.key == nil {
      sentences.append(.init("The server's key is not known yet: it is kept when the server calls next."))
    } else if link.nextKey != nil {
      sentences.append(.init("Which of two keys it has there is not known yet: its next report finds out."))
    }
    if host != nil, link.key != nil, let failure = link.failure {
      sentences.append(.init("Its last report was not accepted: \(failure)", isBad: true))
    }
    if let refused = link.refusedAt {
      sentences.append(
        .init("\(Reason.upstreamDisallows.explanation.meaning) It said so \(age(refused)) ago.", isBad: true))
    }
    sentences.append(
      .init(
        link.reportedAt.map { "The last report was accepted \(age($0)) ago." }
          ?? "No report has been passed on yet.")
    )
    return AdminFact("Upstream bouncer \(host ?? "")", sentences)
  }
}
