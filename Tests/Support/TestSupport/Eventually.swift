package import Testing

/// Waits until the condition holds; fails the test after a generous time.
package func eventually(
  _ what: String = "it", within limit: Duration = .seconds(60),
  sourceLocation: SourceLocation = #_sourceLocation, _ condition: () async throws -> Bool
) async rethrows {
  let end = ContinuousClock.now + limit
  while ContinuousClock.now < end {
    if try await condition() { return }
    try? await Task.sleep(for: .milliseconds(10))
  }
  Issue.record("\(what): did not happen in time", sourceLocation: sourceLocation)
}
