package import Foundation
internal import Providers
internal import Settings
package import Upstream

/// What the operator sees of a chat server's upstream link.
package struct UpstreamReport: Sendable {
  package let link: UpstreamLinks.Link
  /// Where the upstream bouncer is; nil if `upstream.url` is not set.
  package let host: String?
  /// Live registrations there, as far as they were made through this service.
  package let encrypted, legacy: Int64

  /// Nil if the server has no link.
  package init?(of server: Int64, _ links: UpstreamLinks, at host: String?) async throws {
    guard let link = try await links.link(of: server) else { return nil }
    self.link = link
    self.host = host
    (encrypted, legacy) = try await links.count(of: server)
  }

  /// In sentences, each with whether it tells of something to mend.
  package func sentences(at now: Date) -> [(text: String, isBad: Bool)] {
    func age(_ date: Date) -> String { Phrase.duration(max(0, now.timeIntervalSince(date))) }
    var sentences: [(String, Bool)] = [
      (
        "\(Phrase.count(Int(encrypted), "encrypted registration")) and \(Phrase.number(legacy)) of old apps are registered there.",
        false
      )
    ]
    if host == nil {
      sentences.append(("upstream.url is not set: nothing is passed on.", true))
    } else if link.key == nil {
      sentences.append(("The server's key is not known yet: it is kept when the server calls next.", false))
    } else if let failure = link.failure {
      sentences.append(("Its last report was not taken: \(failure)", true))
    }
    if let refused = link.refusedAt {
      sentences.append(
        ("\(Reason.upstreamDisallows.explanation.meaning) It said so \(age(refused)) ago.", true))
    }
    sentences.append(
      (
        link.reportedAt.map { "The last report was taken \(age($0)) ago." } ?? "No report was passed on yet.",
        false
      ))
    return sentences
  }
}

extension Dashboard {
  /// The entry for a chat server's upstream link on its page; nothing without one.
  func linkFacts(of server: Int64) async throws -> HTML {
    let links = UpstreamLinks(
      database: sources.database, storageKey: sources.storageKey, now: sources.now)
    let host = sources.configuration.upstream.authority
    guard let report = try await UpstreamReport(of: server, links, at: host) else { return .none }
    let sentences = report.sentences(at: sources.now()).map { text, isBad -> HTML in
      isBad ? "<span class=\"word bad\">\(text)</span> " : "\(text) "
    }
    return "<dt>Upstream bouncer \(report.host ?? "")</dt><dd>\(sentences)</dd>"
  }
}

extension Configuration {
  /// The routes that need no credential, as their names are shown.
  package var routesElsewhere: [String] {
    upstream.authority.map { ["\(Route.Provider.elsewhere):\($0)"] } ?? []
  }
}
