package import HTTPClient

extension ConnectionFailure {
  package var reason: Reason { Reason(rawValue) }

  /// The reason if the host is a provider's sign-in: a name of its own, so that nobody looks for the fault at the push service. What
  /// concerns only this machine or its proxy has the same reason in both cases.
  package var signInReason: Reason {
    switch self {
    case .descriptorsExhausted, .http2NotOffered, .proxyNameNotResolved, .proxyConnectionRefused,
      .proxyConnectTimeout, .proxyUnreachable, .proxyUnauthorized:
      reason
    default: Reason("signIn\(rawValue.prefix(1).uppercased())\(rawValue.dropFirst())")
    }
  }
}

extension Reason {
  /// The reasons for having no connection to the provider.
  static let connection: [Row] = ConnectionFailure.allCases.map {
    Row($0.reason, .retry(.route), $0.explanation(of: "The provider"))
  }

  /// Whether no connection to the provider, or to its sign-in, could be opened.
  package var isOfConnection: Bool { connectionFailure != nil }

  /// The failure to connect that it names, and whether that was to its sign-in; nil for any other reason.
  var connectionFailure: (failure: ConnectionFailure, isOfSignIn: Bool)? {
    if let failure = ConnectionFailure(rawValue: rawValue) { return (failure, false) }
    return ConnectionFailure.allCases.first { $0.signInReason == self && $0.reason != self }.map {
      ($0, true)
    }
  }
}

extension ConnectionFailure {
  /// What it means and what to do.
  ///
  /// - Parameter host: what was called, as the subject of a sentence: `The provider`.
  package func explanation(of host: String) -> Explanation {
    .init(
      meaning(of: host), .untilReached(advice),
      mayBeClock: self == .certificateExpired || self == .certificateNotYetValid,
      publicMeaning: "\(host) cannot be reached by this push notification service.")
  }

  /// What it means, in a sentence.
  package func meaning(of host: String) -> String {
    switch self {
    case .nameNotResolved:
      "\(host) cannot be called: this machine's name resolution has no address for its name."
    case .connectionRefused:
      "\(host) cannot be called: the connection is refused, by its machine or by a firewall."
    case .connectTimeout:
      "\(host) cannot be called: nothing answers when a connection is opened."
    case .networkUnreachable:
      "\(host) cannot be called: this machine has no route to its address."
    case .connectFailed:
      "\(host) cannot be called: the connection breaks off before it is open."
    case .descriptorsExhausted:
      "\(host) cannot be called: this process has as many files and connections open as it may."
    case .handshakeTimeout:
      "\(host) takes the connection and then says nothing: neither TLS nor HTTP/2 begins."
    case .handshakeClosed:
      "\(host) takes the connection and closes it before TLS and HTTP are agreed on."
    case .notTLS:
      "\(host) takes the connection, but what answers there does not speak TLS."
    case .certificateExpired:
      "\(host) shows a certificate that has expired, by this machine's clock."
    case .certificateNotYetValid:
      "\(host) shows a certificate that is not valid yet, by this machine's clock."
    case .certificateUntrusted:
      "\(host) shows a certificate that no authority known to this machine has signed."
    case .certificateNameMismatch:
      "\(host) shows a certificate of another host."
    case .http2NotOffered:
      "\(host) is reached, but what answers there does not speak HTTP/2."
    case .tlsFailed:
      "\(host) is reached, but no version of TLS or no cipher suite can be agreed on."
    case .proxyNameNotResolved:
      "The proxy (providers.proxy) cannot be called: this machine's name resolution has no address for its name."
    case .proxyConnectionRefused:
      "The proxy (providers.proxy) cannot be called: it refuses the connection."
    case .proxyConnectTimeout:
      "The proxy (providers.proxy) cannot be called: nothing answers when a connection is opened."
    case .proxyUnreachable:
      "The proxy (providers.proxy) cannot be called: there is no route to it, or it breaks the connection off."
    case .proxyTimeout:
      "The proxy (providers.proxy) does not answer when it is asked for a connection (CONNECT). \(host) is behind it."
    case .proxyUnauthorized:
      "The proxy (providers.proxy) asks for a name and password, or does not accept those that it gets (status 407)."
    case .proxyForbidden:
      "The proxy (providers.proxy) forbids the connection (status 403). \(host) is behind it."
    case .proxyCannotConnect:
      "The proxy (providers.proxy) cannot open the connection itself (status 5xx). \(host) is behind it."
    case .proxyRefused:
      "The proxy (providers.proxy) does not open the connection. \(host) is behind it."
    }
  }

  private var advice: String {
    switch self {
    case .nameNotResolved:
      "See whether getent ahosts NAME finds the name (the log names it as host), and /etc/resolv.conf."
    case .connectionRefused:
      "See that outgoing connections to its port (443) are allowed, or name a proxy in providers.proxy."
    case .connectTimeout:
      """
      See that outgoing connections to its port (443) are allowed, that getent ahosts NAME answers at once, or name a \
      proxy in providers.proxy.
      """
    case .networkUnreachable:
      "See this machine's network and its default route (ip route), or name a proxy in providers.proxy."
    case .connectFailed:
      "See what a firewall in between does with connections to its port (443)."
    case .descriptorsExhausted:
      "Allow more file descriptors (LimitNOFILE), or lower http.max_connections."
    case .handshakeTimeout, .handshakeClosed:
      "See whether a firewall or another machine in between holds up or inspects TLS."
    case .notTLS:
      "See whether a machine in between answers in its place, and that address and port are right."
    case .certificateExpired, .certificateNotYetValid:
      "See whether a machine in between opens TLS with a certificate of its own."
    case .certificateUntrusted:
      """
      See that ca-certificates is installed and up to date, and that no machine in between opens TLS; if one must, name \
      its authority in providers.ca_file.
      """
    case .certificateNameMismatch:
      """
      See that its name leads to the right machine, and that the certificate names the host among its alternative names \
      (a name by a DNS name, an address by an address).
      """
    case .http2NotOffered, .tlsFailed:
      "See whether a machine in between opens TLS; calls to the provider have to be let through unopened."
    case .proxyNameNotResolved, .proxyConnectionRefused, .proxyConnectTimeout, .proxyUnreachable:
      "See that the proxy runs, and that host and port in providers.proxy are right."
    case .proxyTimeout:
      "See whether the proxy runs as it should, and what it logs."
    case .proxyUnauthorized:
      "Correct the name and password in providers.proxy (http://NAME:PASSWORD@HOST:PORT)."
    case .proxyForbidden:
      "Have the proxy allow CONNECT to the host and its port (443)."
    case .proxyCannotConnect:
      "See what the proxy logs: it may not resolve the name, or not reach the host."
    case .proxyRefused:
      "See that providers.proxy names an HTTP proxy that supports CONNECT, and what it logs."
    }
  }
}
