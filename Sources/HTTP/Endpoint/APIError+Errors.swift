import HTTPTypes
import Hummingbird
package import Logging
import NIOCore
import NIOHTTP1
import SQL

extension APIError {
  /// The refusal that any error comes to. What is a fault of ours is logged.
  package init(_ error: any Error, logger: Logger) {
    switch error {
    case let error as APIError:
      self = error
    case is NIOTooManyBytesError:
      self.init(.contentTooLarge, code: "PAYLOAD_TOO_LARGE", "Payload too large")
    case is BodyBudget.Exceeded:
      self = .tryAgainLater
    case let error as HTTPError where error.status == .notFound:
      self.init(.notFound, "Not found")
    case is HTTPParserError:
      self.init(.badRequest, "Malformed request")
    case let error as DatabaseError:
      // Its text names tables and constraints, never values.
      logger.error("database failed", metadata: ["code": "\(error.code)", "reason": "\(error.message)"])
      self = error.isTransient ? .tryAgainLater : .internalError
    case is CancellationError:
      self = .unavailable("Shutting down", retryAfter: 5)
    case let error as any HTTPResponseError:
      self.init(error.status, error.status.reasonPhrase)
    default:
      // The type names the fault; the text could hold a value.
      logger.error("request failed", metadata: ["error": "\(DatabaseError.name(of: error))"])
      self = .internalError
    }
  }
}
