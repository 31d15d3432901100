import Dispatch
import Synchronization

/// Runs asynchronous work to its end, because libFuzzer calls a synchronous function. The work never really
/// suspends: it is asynchronous only because a body may come in parts.
func blocking<Value: Sendable>(_ work: @escaping @Sendable () async throws -> Value) throws -> Value {
  let result = Mutex<Result<Value, any Error>?>(nil)
  let done = DispatchSemaphore(value: 0)
  Task.detached {
    let value: Result<Value, any Error>
    do { value = .success(try await work()) } catch { value = .failure(error) }
    result.withLock { $0 = value }
    done.signal()
  }
  done.wait()
  guard let value = result.withLock({ $0 }) else { preconditionFailure("it was set before the signal") }
  return try value.get()
}
