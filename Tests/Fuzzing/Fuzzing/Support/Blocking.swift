import Dispatch
import Synchronization

/// Waits for what is asynchronous only because a body could come in parts: libFuzzer calls a plain function.
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
