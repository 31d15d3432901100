/// Runs a test, and cleans up however it ends. An HTTP client that nobody shuts down, for example, ends the whole process, with
/// all tests that are still to come.
///
/// - Throws: the test's error; without one, that of the clean-up.
@discardableResult package func withCleanUp<Result>(
  _ test: () async throws -> Result, cleanUp: () async throws -> Void
) async throws -> Result {
  let result: Result
  do {
    result = try await test()
  } catch {
    try? await cleanUp()
    throw error
  }
  try await cleanUp()
  return result
}
