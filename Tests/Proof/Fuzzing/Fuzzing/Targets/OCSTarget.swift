import HTTPTypes
import Hummingbird
import Logging

@testable import HTTP
@testable import NextcloudServer
@testable import Providers

/// Calls of OCS: a request with its query, headers and body, the parameters that phones send, and what is answered.
enum OCSTarget: FuzzTarget {
  static let name = "ocs"

  private static let logger = Logger(label: "fuzz") { _ in SwiftLogNoOpLogHandler() }

  static func run(_ bytes: [UInt8]) throws {
    let text = HTTPText(bytes)
    let request = text.request
    _ = OCSFormat(ofRefused: request)
    guard
      let call = try? blocking({
        try await OCSRequest(request, WireContext(inProcess: logger), limit: 1 << 20)
      })
    else { return }
    _ = try? PushParameters.pushTokenHash(call["pushTokenHash"])
    _ = try? PushParameters.deviceKey(call["devicePublicKey"])
    _ = try? PushParameters.proxyServer(call["proxyServer"], allowsLocal: false)
    if let target = try? SubscriptionParameters.target(
      endpoint: call["endpoint"], key: call["uaPublicKey"], secret: call["auth"])
    {
      try check(
        (try? WebPushSubscription(token: target.token)) == target, "a subscription reads as it is written")
    }
    _ = try? SubscriptionParameters.appTypes(call["appTypes"])
    let list = (try? call.list("apps")) ?? []
    let data: JSON = ["apps": .array(list.map(JSON.string)), "agent": .string(call.userAgent)]
    try check(
      try? JSON.parse(data.php(hexTags: true)), is: data, "what is written as PHP does reads the same")
    let xml = OCSXML.document(["data": data])
    try check(
      xml.allSatisfy { $0 >= 0x20 || $0 == 0x0A || $0 == 0x09 }
        && xml.count { $0 == UInt8(ascii: "<") } == tags(list.count),
      "nothing that was sent becomes markup")
    _ = OCSAnswer(.ok, data: data).response(call.format, call.version)
  }

  /// `<?xml`, `<ocs>`, `<data>`, `<apps>` and their ends, `<agent>` with its own, and each element.
  private static func tags(_ elements: Int) -> Int {
    1 + 4 + (elements == 0 ? 1 : 2 + 2 * elements) + 2
  }
}
