internal import HTTP
internal import HTTPTypes

extension NextcloudServerRoutes {
  /// `GET cloud/capabilities`. Without a login it does not mention notifications.
  /// `push` among the endpoints is for clients of the draft of 2017.
  func capabilities(_ login: NextcloudLogin?, _ call: OCSRequest) async throws -> OCSAnswer {
    var capabilities: JSON.Object = ["core": ["pollinterval": 60]]
    if login != nil {
      capabilities["notifications"] = [
        "ocs-endpoints": [
          "list", "get", "delete", "delete-all", "icons", "rich-strings", "action-web", "user-status",
          "exists",
          "test-push", "push",
        ],
        "push": .array(["devices", "object-data", "delete"] + dependencies.webPush.capabilities),
        "admin-notifications": ["ocs", "cli"],
      ]
    }
    return OCSAnswer(.ok, data: ["version": Self.versionParts, "capabilities": .object(capabilities)])
  }

  private static var versionParts: JSON {
    let numbers = version.split(separator: ".").compactMap { Int64($0) }
    return .object(
      JSON.Object(
        zip(["major", "minor", "micro"], numbers).map { .init($0, .integer($1)) } + [
          .init("string", .string(version)), .init("edition", ""), .init("extendedSupport", false),
        ]))
  }
}
