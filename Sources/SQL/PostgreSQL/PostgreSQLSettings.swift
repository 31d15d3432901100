import CPostgreSQL
import Foundation

/// How connections to a server are made: the URL's options, completed where it is silent.
struct PostgreSQLSettings: Sendable {
  /// libpq's options by name; they may hold a password.
  private let options: [String: String]

  /// Run on every new connection. Not sent as the option `options`, which the URL may have.
  ///
  /// A commit that is answered before it is on a disk would not be durable, so a server that was
  /// told to answer sooner is told otherwise. A program that vanished in mid-transaction gives its
  /// locks back after a minute.
  let sessionScript: String

  /// How long a server may say nothing while it is waited for; nil: for ever. It ends a statement that takes too
  /// long by itself, so one that is silent for longer hangs.
  let longestSilence: Duration?

  /// - Throws: ``DatabaseError/Code/invalidURL``, whose text does not repeat it.
  init(url: String, statementTimeout: Int, longestSilence: Duration? = nil) throws(DatabaseError) {
    var options = Self.defaults
    for (name, value) in try Self.parse(url) { options[name] = value }
    if options["sslmode"] == nil, getenv("PGSSLMODE") == nil, !Self.isLocal(options) {
      options["sslmode"] = "require"
    }
    self.options = options
    sessionScript = """
      SET statement_timeout = \(statementTimeout);
      SET idle_in_transaction_session_timeout = 60000;
      SET client_min_messages = warning;
      SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off';
      """
    self.longestSilence = longestSilence
  }

  /// Connects and blocks meanwhile; nil if there is no memory.
  func connect() -> OpaquePointer? {
    let options = Array(options)
    let names = options.map { strdup($0.key) } + [nil]
    let values = options.map { strdup($0.value) } + [nil]
    defer { for copy in names + values { free(copy) } }
    return PQconnectdbParams(names.map { UnsafePointer($0) }, values.map { UnsafePointer($0) }, 0)
  }

  /// What libpq is asked for; `sslmode` aside.
  var sslMode: String? { options["sslmode"] }

  /// The error of who could not connect: a server that is not there may be as good as lost later.
  static func unreachable(_ error: any Error) -> any Error {
    guard let error = error as? DatabaseError, error.code == .connectionLost else { return error }
    return DatabaseError(.unreachable, error.message)
  }

  private static let defaults = [
    "application_name": "push-bouncer", "client_encoding": "UTF8", "connect_timeout": "5",
    "keepalives": "1", "keepalives_idle": "30", "keepalives_interval": "10", "keepalives_count": "3",
    // Milliseconds until what nobody acknowledges ends the connection.
    "tcp_user_timeout": "30000",
  ]

  private static func parse(_ url: String) throws(DatabaseError) -> [String: String] {
    // Its message quotes the URL and so perhaps the password.
    guard let list = PQconninfoParse(url, nil) else {
      throw DatabaseError(.invalidURL, "is no URL of a database, or has an option that does not exist")
    }
    defer { PQconninfoFree(list) }
    var options: [String: String] = [:]
    var option = list
    while let name = option.pointee.keyword {
      if let value = option.pointee.val { options[String(cString: name)] = String(cString: value) }
      option += 1
    }
    return options
  }

  /// Whether nothing leaves this machine: a socket in the file system or the loopback, for each of
  /// several hosts.
  private static func isLocal(_ options: [String: String]) -> Bool {
    // An address, if there is one, is what is connected to, whatever the host's name.
    let hosts = options["hostaddr"] ?? options["host"] ?? getenv("PGHOST").map { String(cString: $0) } ?? ""
    return hosts.split(separator: ",", omittingEmptySubsequences: false).allSatisfy { host in
      host.isEmpty || host.hasPrefix("/") || host.hasPrefix("@") || host == "localhost" || host == "::1"
        || host.hasPrefix("127.") && host.allSatisfy { $0.isNumber || $0 == "." }
    }
  }
}
