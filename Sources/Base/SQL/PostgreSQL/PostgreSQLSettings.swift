import CPostgreSQL
import Foundation

/// Connection settings: the URL's options and our defaults for those that it leaves out.
struct PostgreSQLSettings: Sendable {
  /// libpq's options by name; may contain a password.
  private(set) var options: [String: String]

  /// Run on every new connection. Not sent as the libpq option `options`, because the URL may use that.
  ///
  /// Makes commits durable even if the server's default is not. A process that vanishes in a transaction
  /// releases its locks after a minute.
  let sessionScript: String

  /// How long to wait for a silent server; nil for no limit. The server itself ends statements that take too
  /// long, so one that is silent for longer hangs.
  let longestSilence: Duration?

  /// Whether a server that takes no writes, as a standby, counts as one that cannot be reached.
  let mustTakeWrites: Bool

  /// - Throws: ``DatabaseError/Code/invalidURL``, whose text does not repeat the URL.
  init(
    url: String, statementTimeout: Int, longestSilence: Duration? = nil, mustTakeWrites: Bool = true
  ) throws(DatabaseError) {
    var options = try Self.parse(url)
    if options["sslmode"] == nil, getenv("PGSSLMODE") == nil, !Self.isLocal(options) {
      options["sslmode"] = "require"
    }
    if mustTakeWrites, Self.hosts(options).contains(",") {
      options.merge(Self.defaultsForSeveralHosts) { given, _ in given }
    }
    options.merge(Self.defaults) { given, _ in given }
    self.options = options
    sessionScript = """
      SET statement_timeout = \(statementTimeout);
      SET idle_in_transaction_session_timeout = 60000;
      SET client_min_messages = warning;
      SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off';
      """
    self.longestSilence = longestSilence
    self.mustTakeWrites = mustTakeWrites
  }

  /// Connects, blocking; nil if memory runs out.
  func connect() -> OpaquePointer? {
    let options = Array(options)
    let names = options.map { strdup($0.key) } + [nil]
    let values = options.map { strdup($0.value) } + [nil]
    defer { for copy in names + values { free(copy) } }
    return PQconnectdbParams(names.map { UnsafePointer($0) }, values.map { UnsafePointer($0) }, 0)
  }

  /// The same settings without one of several hosts.
  func besides(_ server: PrimaryWatch.Server) -> Self { with(hosts: indices(besides: server)) }

  /// The same settings, but one of several hosts is tried last.
  func last(_ server: PrimaryWatch.Server) -> Self {
    let others = indices(besides: server)
    return with(hosts: others + list("host").indices.filter { !others.contains($0) })
  }

  /// The places in the URL of all hosts but one; of all if it is the only one.
  private func indices(besides server: PrimaryWatch.Server) -> [Int] {
    let hosts = list("host")
    let addresses = list("hostaddr")
    let ports = list("port")
    let others = hosts.indices.filter { index in
      let port = ports.count == 1 ? ports[0] : ports.dropFirst(index).first ?? ""
      let isSamePort = port.isEmpty || port == server.port
      let isSameHost =
        hosts[index] == server.host || addresses.dropFirst(index).first.map { $0 == server.host } == true
      return !(isSameHost && isSamePort)
    }
    return others.isEmpty ? Array(hosts.indices) : others
  }

  private func list(_ option: String) -> [Substring] {
    (options[option] ?? "").split(separator: ",", omittingEmptySubsequences: false)
  }

  private func with(hosts indices: [Int]) -> Self {
    var settings = self
    for option in ["host", "hostaddr", "port"] {
      let list = list(option)
      if list.count > 1 { settings.options[option] = indices.map { list[$0] }.joined(separator: ",") }
    }
    return settings
  }

  /// The effective `sslmode` option, if any.
  var sslMode: String? { options["sslmode"] }

  /// Turns a lost connection into ``DatabaseError/Code/unreachable`` if it occurred while connecting.
  static func unreachable(_ error: any Error) -> any Error {
    guard let error = error as? DatabaseError, error.code == .connectionLost else { return error }
    return DatabaseError(.unreachable, error.message)
  }

  /// With these libpq goes on to the next host if one is a standby, or does not answer within two seconds.
  private static let defaultsForSeveralHosts = [
    "target_session_attrs": "read-write", "connect_timeout": "2",
  ]

  private static let defaults = [
    "application_name": "push-bouncer", "client_encoding": "UTF8", "connect_timeout": "5",
    "keepalives": "1", "keepalives_idle": "30", "keepalives_interval": "10", "keepalives_count": "3",
    // Milliseconds without an acknowledgement after which the connection is closed.
    "tcp_user_timeout": "30000",
  ]

  /// libpq's options in a URL, by name. May contain a password.
  ///
  /// - Throws: ``DatabaseError/Code/invalidURL``, whose text does not repeat the URL.
  static func parse(_ url: String) throws(DatabaseError) -> [String: String] {
    // libpq's message is left out, because it quotes the URL and perhaps the password.
    guard let list = PQconninfoParse(url, nil) else { throw unknownOption(in: url) ?? notEncoded }
    defer { PQconninfoFree(list) }
    return values(list)
  }

  private static func values(_ list: UnsafeMutablePointer<PQconninfoOption>) -> [String: String] {
    var options: [String: String] = [:]
    var option = list
    while let name = option.pointee.keyword {
      if let value = option.pointee.val { options[String(cString: name)] = String(cString: value) }
      option += 1
    }
    return options
  }

  /// What may be wrong with a URL that libpq does not understand.
  static let notEncoded = DatabaseError(
    .invalidURL,
    """
    must be postgres://USER:PASSWORD@HOST:PORT/NAME, with @ : / ? # % and blanks in user and password percent-encoded: \
    %40 for @, %3A for :, %2F for /, %3F for ?, %23 for #, %25 for %, %20 for a blank
    """)

  /// The error that names an option that libpq does not know; nil if there is none.
  private static func unknownOption(in url: String) -> DatabaseError? {
    let query = url.split(separator: "?", maxSplits: 1).dropFirst().first ?? ""
    // Then it may be a part of the password that looks like options.
    guard !query.contains("@"), let list = PQconndefaults() else { return nil }
    defer { PQconninfoFree(list) }
    var known = Set(["ssl"])
    var option = list
    while let name = option.pointee.keyword {
      known.insert(String(cString: name))
      option += 1
    }
    let names = query.split(separator: "&").map { String($0.prefix { $0 != "=" }) }
    guard
      let unknown = names.first(where: { name in
        !known.contains(name) && name.utf8.count <= 64
          && name.utf8.allSatisfy { UInt8(ascii: "_") == $0 || Character(Unicode.Scalar($0)).isLetter }
      })
    else { return nil }
    let remedy =
      ["schema", "currentSchema", "search_path"].contains(unknown)
      ? "for a schema write options=-csearch_path%3DNAME" : "leave it out"
    return DatabaseError(
      .invalidURL, "has the option \(unknown), which PostgreSQL's library does not know: \(remedy)")
  }

  /// The hosts, separated by commas.
  private static func hosts(_ options: [String: String]) -> String {
    // If there is a `hostaddr`, it is connected to, whatever the host's name.
    options["hostaddr"] ?? options["host"] ?? getenv("PGHOST").map { String(cString: $0) } ?? ""
  }

  /// Whether all hosts are Unix sockets or loopback addresses.
  private static func isLocal(_ options: [String: String]) -> Bool {
    // An empty one is this machine.
    hosts(options).split(separator: ",").allSatisfy { host in
      host.hasPrefix("/") || host.hasPrefix("@") || host == "localhost" || host == "::1"
        || host.hasPrefix("127.") && host.allSatisfy { $0.isNumber || $0 == "." }
    }
  }
}
