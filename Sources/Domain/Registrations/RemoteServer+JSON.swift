package import HTTP
import SQL

extension RemoteServer {
  /// What `--json` says of the server.
  package static var members: [JSONMember<RemoteServer>] {
    ServerName.members.of {
      ServerName(orgID: $0.uuid.canonical, hostname: $0.hostname, isDeactivated: $0.isDeactivated)
    }
  }
}

/// How JSON names a chat server.
package struct ServerName {
  let orgID: String
  let hostname: String
  let isDeactivated: Bool

  package init(orgID: String, hostname: String, isDeactivated: Bool) {
    self.orgID = orgID
    self.hostname = hostname
    self.isDeactivated = isDeactivated
  }

  package static var members: [JSONMember<ServerName>] {
    [
      .member("org_id", "`zulip_org_id`, a UUID") { $0.orgID }, .member("hostname") { $0.hostname },
      .member("deactivated") { $0.isDeactivated },
    ]
  }
}

extension Wire: JSONRepresentable {
  package static var jsonShape: JSONShape { .oneOf(allCases.map(\.description)) }
  package var json: JSON { .string(description) }
}
