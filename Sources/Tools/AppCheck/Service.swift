package import Basics
internal import Foundation
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

    /// - Parameters:
    ///   - publicURL: `http.public_url`
    ///   - apps: the built-in apps and those of `nextcloud.apps_file`.
    package init(
      bouncerKeys: BouncerKeyring, credentials: Credentials, publicURL: String?, apps: NextcloudApps
    ) {
      keys = bouncerKeys.all.map { Key(text: $0.pair.publicKeyBase64, isActive: $0.state == .active) }
      apple = credentials.apns.map {
        Apple(name: $0.name, team: $0.teamID, topics: $0.topics, environment: $0.environment)
      }
      projects = Set(credentials.fcm.map(\.projectID)).sorted()
      defaultProject = credentials.defaultProject
      address = publicURL
      self.apps = apps
    }
  }
}

extension AppCheck.Service {
  /// What ``init(_:)`` reads again on another machine.
  package var json: JSON {
    let kinds = Dictionary(uniqueKeysWithValues: NextcloudApp.kinds.map { ($1, $0) })
    return [
      "bouncer_keys": .array(
        keys.map { ["public_key": .string($0.text), "state": $0.isActive ? "active" : "retired"] }),
      "apns": .array(
        apple.map {
          [
            "name": .string($0.name), "team_id": .string($0.team),
            "topics": .array($0.topics.map(JSON.string)), "environment": .string($0.environment.rawValue),
          ]
        }), "fcm_projects": .array(projects.map(JSON.string)),
      "fcm_default_project": .optional(defaultProject), "public_url": .optional(address),
      "apps": .array(
        apps.own.map { app in
          var entry: JSON.Object = [
            "name": .string(app.name), "user_agent": .string(app.userAgentPattern),
            "kind": .string(kinds[app.kind] ?? "other"), "platform": .string(app.platform.rawValue),
          ]
          if let topic = app.apnsTopic { entry["apns_topic"] = .string(topic) }
          if let project = app.fcmProject { entry["fcm_project"] = .string(project) }
          return .object(entry)
        }), "default_app": .optional(apps.standard?.name),
    ]
  }

  /// - Parameter bytes: what ``json`` has made, from the file at `path`.
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
