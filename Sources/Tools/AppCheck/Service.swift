package import Basics
import Foundation
package import HTTP
package import NextcloudProxy
package import Providers
package import Sealing

extension AppCheck {
  /// What a service has, which an app must fit. All of it is public: none of it is a secret of the service.
  package struct Service: Sendable {
    /// A bouncer key, in base64.
    struct Key: Sendable {
      let text: String
      let isActive: Bool
    }

    /// What one key of Apple's serves.
    struct Apple: Sendable {
      let name: String
      let team: String
      let topics: [String]
      let environment: APNsCredential.Environment
    }

    let keys: [Key]
    let apple: [Apple]
    /// Of Firebase, sorted.
    let projects: [String]
    let defaultProject: String?
    /// `http.public_url`
    let address: String?
    let apps: NextcloudApps

    /// - Parameter apps: the built-in apps and those of `nextcloud.apps_file`.
    package init(
      bouncerKeys: BouncerKeyring, credentials: Credentials, publicURL: String?, apps: NextcloudApps
    ) {
      keys = bouncerKeys.all.map { Key(text: $0.pair.publicKeyBase64, isActive: $0.state == .active) }
      apple = credentials.apns.map {
        Apple(name: $0.name, team: $0.teamID, topics: $0.topics, environment: $0.environment)
      }
      projects = Set(credentials.fcm.map(\.projectID)).sorted()
      (defaultProject, address, self.apps) = (credentials.defaultProject, publicURL, apps)
    }
  }
}

extension AppCheck.Service {
  /// What ``init(_:path:)`` reads again on another machine.
  package static var members: [JSONMember<AppCheck.Service>] {
    [
      .list("bouncer_keys", of: keyMembers) { $0.keys }, .list("apns", of: appleMembers) { $0.apple },
      .member("fcm_projects", "Firebase projects") { $0.projects },
      .member("fcm_default_project", "`fcm.default_project`, or the only one") { $0.defaultProject },
      .member("public_url", "`http.public_url`") { $0.address },
      .list("apps", "the apps of `nextcloud.apps_file`", of: appMembers) { $0.apps.own },
      .member("default_app", "`nextcloud.default_app`") { $0.apps.standard?.name },
    ]
  }

  private static var keyMembers: [JSONMember<Key>] {
    [
      .member("public_key", "32 bytes in base64") { $0.text },
      .member("state", .oneOf(BouncerKeyring.Entry.State.self)) { $0.isActive ? "active" : "retired" },
    ]
  }

  private static var appleMembers: [JSONMember<Apple>] {
    [
      .member("name", "the key's file") { $0.name }, .member("team_id") { $0.team },
      .member("topics", "the bundle ids that it serves") { $0.topics },
      .member("environment", .oneOf(APNsCredential.Environment.self)) { .string($0.environment.rawValue) },
    ]
  }

  private static var appMembers: [JSONMember<NextcloudApp>] {
    let kinds = Dictionary(uniqueKeysWithValues: NextcloudApp.kinds.map { ($1, $0) })
    return [
      .member("name") { $0.name },
      .member("user_agent", "the regular expression that its `User-Agent` matches") { $0.userAgentPattern },
      .member("kind", .oneOf(kinds.values.sorted())) { .string(kinds[$0.kind] ?? "other") },
      .member("platform", .oneOf(["ios", "android"])) { .string($0.platform.rawValue) },
      .member("apns_topic", .string, isAlwaysThere: false) { $0.apnsTopic.map(JSON.string) },
      .member("fcm_project", .string, isAlwaysThere: false) { $0.fcmProject.map(JSON.string) },
    ]
  }

  /// - Parameter bytes: what ``members`` have made, from the file at `path`.
  package init(_ bytes: [UInt8], path: String) throws(Fault) {
    do {
      let field = try Field(JSON.parse(bytes), path: "expected")
      func texts(_ field: Field) throws -> [String] { try field.elements().map { try $0.string() } }
      keys = try field["bouncer_keys"].elements().map {
        Key(text: try $0["public_key"].string(), isActive: try $0["state"].string() == "active")
      }
      apple = try field["apns"].elements().map { key in
        guard let environment = APNsCredential.Environment(rawValue: try key["environment"].string()) else {
          throw key["environment"].error("is not production or sandbox")
        }
        return Apple(
          name: try key["name"].string(), team: try key["team_id"].string(), topics: try texts(key["topics"]),
          environment: environment)
      }
      projects = try texts(field["fcm_projects"])
      defaultProject = try field["fcm_default_project"].present?.string()
      address = try field["public_url"].present?.string()
      var own: [UInt8] = []
      try field["apps"].existing().write(to: &own)
      apps = try NextcloudApps(own: NextcloudApp.read(own), default: field["default_app"].present?.string())
    } catch {
      let problem =
        switch error {
        case let error as JSON.ParseError: "is no JSON: \(error.explanation(in: bytes))"
        case let error as NextcloudApp.Malformed: error.description
        case let error as APIError: error.message
        default: "cannot be read"
        }
      throw Fault(source: path, problem, advice: "write it anew: push-bouncer app expect > expected.json")
    }
  }
}
