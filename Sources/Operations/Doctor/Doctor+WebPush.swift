internal import Crypto
internal import Delivery
internal import Foundation
internal import Migrations
internal import Providers
internal import SQL
internal import Sealing

extension Doctor {
  /// What came of a call to a push service of the operator's.
  package enum PushServiceAnswer: Sendable, Hashable {
    /// Its certificate is trusted, and it answers.
    case answered
    /// No address is known of that name.
    case unknownName
    /// Nothing listens on port 443.
    case closed
    /// TLS failed.
    case untrusted
    case silent
  }

  /// Whether Web Push is on, with what key and contact, and how the operator's own push services are.
  ///
  /// - Parameter asksDatabase: whether it can be used.
  func webPushFindings(asksDatabase: Bool = true) async -> [Finding] {
    guard configuration.webPush.isEnabled else { return [.skipped("webpush", "webpush.enabled is false")] }
    let key =
      asksDatabase
      ? await vapidFinding()
      : .skipped("webpush", "it is on; its key pair is in the database, which cannot be used")
    let hosts = configuration.webPush.privateHosts.sorted()
    let services = await withTaskGroup { tasks in
      for host in hosts { tasks.addTask { finding(of: host, await pushService(host)) } }
      var findings: [Finding] = []
      for await finding in tasks { findings.append(finding) }
      return findings.sorted { $0.check < $1.check }
    }
    return [key, contactFinding()] + services
  }

  /// The key pair is only looked at: serve makes it.
  private func vapidFinding() async -> Finding {
    let http = configuration.http
    let address = http.publicURL ?? "\(http.tls == nil ? "http" : "https")://\(http.host):\(http.port)"
    let place = "apps get it at \(address)/api/v1/zulip-services/webpush/vapid"
    let url = configuration.database.url
    let none = Finding.good("webpush", "it is on; serve makes its VAPID key pair, and \(place)")
    guard url.sqlitePath.map(FileManager.default.fileExists) ?? true,
      let storageKey = try? KeyFolder.existingStorageKey(in: configuration.keys.directory),
      let database = try? await openDatabase(url: url)
    else { return none }
    var result: Result<VAPIDKey?, any Error> = .success(nil)
    do {
      if try await Migrator.version(of: database) == Schema.version {
        result = .success(
          try await VAPIDKeys(database: database, storageKey: storageKey, now: now).find())
      }
    } catch {
      result = .failure(error)
    }
    await database.close()
    switch result {
    case .success(let key?):
      let digest = SHA256.hash(data: Array(key.publicKey.utf8)).prefix(4)
      let fingerprint = digest.map { String(format: "%02x", $0) }.joined()
      return .good(
        "webpush", "it is on; the VAPID public key has the fingerprint \(fingerprint), and \(place)")
    case .success(nil): return none
    case .failure:
      return .bad(
        "webpush", "the VAPID key pair in the database does not open with this storage.key",
        advice: """
          put the storage.key back that the database was sealed with; every subscription was made with that key pair, so \
          no other is made in its place
          """)
    }
  }

  /// Whom push services may write to. Without anybody they deliver all the same, as far as is known.
  private func contactFinding() -> Finding {
    let webPush = configuration.webPush
    guard !webPush.namesContact else {
      return .good("webpush.contact", "push services may write to \(webPush.contact)")
    }
    return .good(
      "webpush.contact",
      """
      push services are told of nobody to write to, and some refuse such senders: operator.email, or webpush.contact \
      with a mailto: or https: address, would name somebody
      """)
  }

  private func finding(of host: String, _ answer: PushServiceAnswer) -> Finding {
    let check = "webpush:\(host)"
    switch answer {
    case .answered: return .good(check, "answers, with a certificate that is trusted")
    case .closed:
      return .skipped(
        check, "nothing listens on its port 443; on another port its certificate cannot be looked at")
    case .unknownName:
      return .bad(
        check, "has no address",
        advice: "see webpush.allow_private_hosts, and whether this machine's name resolution knows it")
    case .untrusted:
      return .bad(
        check, "its certificate is not trusted, or is another host's",
        advice: """
          give it a certificate of its name from an authority that this machine trusts, or name your own authority in \
          providers.ca_file
          """)
    case .silent:
      return .bad(check, "does not answer", advice: "see whether it runs, and the network in between")
    }
  }
}
