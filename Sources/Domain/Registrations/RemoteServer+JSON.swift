package import HTTP
internal import SQL

extension RemoteServer {
  /// How `--json` names the server.
  package var json: JSON.Object {
    .server(uuid.canonical, hostname: hostname, isDeactivated: isDeactivated)
  }
}

extension JSON.Object {
  /// A chat server by its UUID and hostname.
  package static func server(_ uuid: String, hostname: String, isDeactivated: Bool) -> JSON.Object {
    ["org_id": .string(uuid), "hostname": .string(hostname), "deactivated": .bool(isDeactivated)]
  }

  /// A realm by its UUID and host; both are nil while it is not known.
  package static func realm(_ uuid: String?, host: String?, isDeactivated: Bool) -> JSON.Object {
    ["uuid": .optional(uuid), "host": .optional(host), "deactivated": .bool(isDeactivated)]
  }
}
