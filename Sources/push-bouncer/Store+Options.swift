import Operations
import Server

extension Store {
  /// Opens it for one command and closes it afterwards.
  static func with<Result>(
    _ options: GlobalOptions, _ body: (Store) async throws -> Result
  ) async throws -> Result {
    try await with(try options.load(), body)
  }
}
