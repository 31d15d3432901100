internal import HTTPTypes
internal import Hummingbird
internal import Wire

/// Tells who calls an endpoint that is not there so in the envelope that its kind of client reads.
struct UnknownOCSPaths: RouterMiddleware {
  func handle(
    _ request: Request, context: WireContext, next: (Request, WireContext) async throws -> Response
  ) async throws -> Response {
    do {
      return try await next(request, context)
    } catch let error as HTTPError where error.status == .notFound {
      guard let version = OCSVersion(path: request.uri.path) else { throw error }
      let format = OCSFormat(
        parameter: OCSRequest.parameter("format", ofQuery: request.uri.query),
        accept: request.headers[.accept])
      return OCSAnswer.unknownPath.response(format, version)
    }
  }
}
