/// A table of a Zulip bouncer (`Documentation/Protocols/Zulip.md` 1.3), in the order in which they are
/// brought in: each after those that it refers to.
package enum ZulipTable: String, Sendable, CaseIterable, Codable, CodingKeyRepresentable {
  /// RemoteZulipServer.
  case servers = "zilencer_remotezulipserver"
  /// RemoteRealm, which old versions do not have.
  case realms = "zilencer_remoterealm"
  /// RemotePushDevice: E2EE registrations, which old versions do not have.
  case devices = "zilencer_remotepushdevice"
  /// RemotePushDeviceToken: legacy registrations.
  case tokens = "zilencer_remotepushdevicetoken"

  /// A column that is read.
  struct Column: Sendable, Hashable {
    let name: String
    /// Whether every version has it.
    let isRequired: Bool
  }

  /// Whether every version has the table.
  var isRequired: Bool { self == .servers || self == .tokens }

  /// The columns that are read; the first is the key.
  var columns: [Column] {
    switch self {
    case .servers: SourceServer.columns
    case .realms: SourceRealm.columns
    case .devices: SourceDevice.columns
    case .tokens: SourceToken.columns
    }
  }

  /// Columns by their names, separated by spaces.
  static func columns(_ required: String, optional: String = "") -> [Column] {
    required.split(separator: " ").map { Column(name: String($0), isRequired: true) }
      + optional.split(separator: " ").map { Column(name: String($0), isRequired: false) }
  }
}
