public import HTTPTypes
public import Hummingbird
public import Logging
import NIOCore
import NIOHTTP1
import SQL

/// Names each request, believes the proxies it should, and turns every error into the envelope, so
/// that a caller always gets JSON with an id to ask about and never a detail that is not theirs.
public struct EnvelopeMiddleware: RouterMiddleware {
  /// The context it reads and fills in.
  public typealias Context = WireContext

  private let trustedProxies: [ClientAddress.Network]

  /// `trustedProxies`: whose `X-Forwarded-For` is believed.
  public init(trustedProxies: [ClientAddress.Network] = []) {
    self.trustedProxies = trustedProxies
  }

  /// Answers a request through the rest of the chain, which may throw.
  public func handle(
    _ request: Request, context: WireContext, next: (Request, WireContext) async throws -> Response
  ) async throws -> Response {
    var context = context
    context.requestID = request.headers[.xRequestID].flatMap(Self.sane) ?? Self.newRequestID()
    context.logger[metadataKey: "request_id"] = .string(context.requestID)
    context.clientAddress = Self.client(
      peer: context.clientAddress, forwardedFor: request.headers[.xForwardedFor], trusted: trustedProxies)
    var response: Response
    do {
      response = try await next(request, context)
    } catch {
      response = Self.response(to: error, logger: context.logger)
    }
    response.headers[.xRequestID] = context.requestID
    return response
  }

  /// The answer to a request that came to this end. What is a fault of ours is logged.
  public static func response(to error: any Error, logger: Logger) -> Response {
    switch error {
    case let error as APIError:
      return error.response
    case is NIOTooManyBytesError:
      return APIError(.contentTooLarge, code: "PAYLOAD_TOO_LARGE", "Payload too large").response
    case let error as HTTPError where error.status == .notFound:
      return APIError(.notFound, "Not found").response
    case is HTTPParserError:
      return APIError(.badRequest, "Malformed request").response
    case let error as DatabaseError:
      // Its text names tables and constraints, never values.
      logger.error("database failed", metadata: ["code": "\(error.code)", "reason": "\(error.message)"])
      return error.isTransient ? APIError.tryAgainLater.response : APIError.internalError.response
    case is CancellationError:
      return APIError.unavailable("Shutting down", retryAfter: 5).response
    case let error as any HTTPResponseError:
      return APIError(error.status, error.status.reasonPhrase).response
    default:
      // The type names the fault; the text could hold a value.
      logger.error("request failed", metadata: ["error": "\(type(of: error))"])
      return APIError.internalError.response
    }
  }

  /// The caller's own id, if it is one: 1 to 128 letters, digits, `.`, `_` or `-`.
  static func sane(_ id: String) -> String? {
    let isSane =
      (1...128).contains(id.utf8.count)
      && id.utf8.allSatisfy { byte in
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
          UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "."), UInt8(ascii: "_"), UInt8(ascii: "-"):
          true
        default: false
        }
      }
    return isSane ? id : nil
  }

  private static func newRequestID() -> String {
    let digits = String(UInt64.random(in: .min ... .max), radix: 16)
    return String(repeating: "0", count: 16 - digits.count) + digits
  }

  /// Walks the chain of proxies from the nearest outward as long as each is trusted.
  static func client(
    peer: ClientAddress, forwardedFor: String?, trusted: [ClientAddress.Network]
  ) -> ClientAddress {
    func isTrusted(_ address: ClientAddress) -> Bool { trusted.contains { $0.contains(address) } }
    guard let forwardedFor, isTrusted(peer) else { return peer }
    var client = peer
    for hop in forwardedFor.utf8.split(separator: UInt8(ascii: ",")).reversed() {
      guard hop.count <= 64, let hop = ClientAddress(String(Substring(hop)).strippingWhitespace()) else {
        break
      }
      client = hop
      if !isTrusted(hop) { break }
    }
    return client
  }
}

extension HTTPField.Name {
  /// `X-Request-Id`
  public static let xRequestID = HTTPField.Name("X-Request-Id")!  // a valid token
  /// `X-Forwarded-For`
  public static let xForwardedFor = HTTPField.Name("X-Forwarded-For")!  // a valid token
}
