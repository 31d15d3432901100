internal import HTTP
internal import HTTPTypes
internal import Hummingbird

/// Tells who calls an endpoint that is not there so in the envelope that its kind of client reads. That it is not there
/// by that method is told without a body.
struct UnknownOCSPaths: RouterMiddleware {
  func handle(
    _ request: Request, context: WireContext, next: (Request, WireContext) async throws -> Response
  ) async throws -> Response {
    guard let version = OCSVersion(path: request.uri.path) else { return try await next(request, context) }
    do {
      let response = try await next(request, context)
      guard response.status == .methodNotAllowed else { return response }
      var refusal = Response(status: response.status)
      refusal.headers[.allow] = response.headers[.allow]
      return refusal
    } catch let error as HTTPError where error.status == .notFound {
      return OCSAnswer.unknownPath.response(OCSFormat(ofRefused: request), version)
    }
  }
}
