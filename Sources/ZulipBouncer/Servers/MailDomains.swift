internal import Wire

/// Where a domain's mail goes, as far as the domain name system tells.
package enum MailExchange: Sendable, Hashable {
  /// It has mail exchangers.
  case found
  /// It has an address but no mail exchanger.
  case none
  /// It does not exist.
  case noSuchDomain
  /// Nobody answered in time: nothing is held against the domain.
  case unknown
}

/// The checks that upstream makes on the domain of a contact address (`bouncer.verify_email_domain`).
struct MailDomains: Sendable {
  let mailExchange: @Sendable (_ domain: String) async -> MailExchange

  /// Throws what is wrong with a domain, in upstream's order.
  func check(_ domain: String) async throws(APIError) {
    if Self.isDisposable(domain) { throw APIError.disposableEmail }
    if domain == "example.com" { throw APIError.exampleEmail }
    switch await mailExchange(domain) {
    case .found, .unknown: break
    case .none: throw APIError.noMailExchange(domain)
    case .noSuchDomain: throw APIError.noSuchDomain(domain)
    }
  }

  /// The best known of the services that hand out throw-away addresses, and what is below them.
  private static let disposable: Set<Substring> = [
    "10minutemail.com", "20minutemail.com", "33mail.com", "burnermail.io", "discard.email", "dispostable.com",
    "emailondeck.com", "fakeinbox.com", "fakemail.net", "getairmail.com", "getnada.com", "grr.la",
    "guerrillamail.biz", "guerrillamail.com", "guerrillamail.de", "guerrillamail.info", "guerrillamail.net",
    "guerrillamail.org", "guerrillamailblock.com", "inboxkitten.com", "mail-temp.com", "mailcatch.com",
    "maildrop.cc", "mailinator.com", "mailinator.net", "mailnesia.com", "mailnull.com", "mailsac.com",
    "mintemail.com",
    "moakt.com", "mohmal.com", "mytemp.email", "nada.email", "sharklasers.com", "spam4.me", "spamgourmet.com",
    "temp-mail.org", "tempail.com", "tempinbox.com", "tempmail.com", "tempmail.net", "tempmailo.com",
    "tempr.email",
    "throwawaymail.com", "trashmail.com", "trashmail.de", "trashmail.net", "wegwerfmail.de", "yopmail.com",
    "yopmail.fr", "yopmail.net",
  ]

  private static func isDisposable(_ domain: String) -> Bool {
    var rest = domain[...]
    while true {
      if disposable.contains(rest) { return true }
      guard let dot = rest.firstIndex(of: ".") else { return false }
      rest = rest[rest.index(after: dot)...]
    }
  }
}
