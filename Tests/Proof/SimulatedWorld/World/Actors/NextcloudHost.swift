import Foundation
import HTTP
import HTTPTypes

/// A Nextcloud server as its apps meet it.
protocol NextcloudHost: AnyObject, Sendable {
  var world: World { get }
  /// The node that takes the next call.
  func nextNode() -> Node
  /// The number of the next login, of any phone.
  func nextLogin() -> Int
  /// Registers a phone with its token; nil: the server has not said yes.
  func register(_ phone: NextcloudPhone) async -> SignedDevice?
  /// Signs a phone out. What the phone has to send to the proxy is nil if it was never registered.
  func forget(_ phone: NextcloudPhone) async -> SignedDevice?
}

/// What a server tells a phone about itself, for the push proxy.
struct SignedDevice {
  /// In base64.
  let identifier, signature: String
  /// In PEM.
  let userKey: String

  var fields: [(String, String)] {
    [
      ("deviceIdentifier", identifier), ("deviceIdentifierSignature", signature), ("userPublicKey", userKey),
    ]
  }
}

extension NextcloudHost {
  func call(
    _ method: HTTPRequest.Method, _ path: String, agent: String = "Nextcloud Server",
    from address: String = "198.51.100.1", _ fields: [(String, String)],
    headers more: HTTPFields = [:]
  ) async -> (node: Node, answer: Answer?) {
    var headers: HTTPFields = [.contentType: "application/x-www-form-urlencoded"]
    headers[.userAgent] = agent
    headers[.forwardedFor] = address
    headers.append(contentsOf: more)
    return await world.call(
      nextNode(), path, "/\(path)", method: method, headers: headers,
      body: Form.encode(fields.map { (name: $0.0, value: $0.1) }))
  }
}
