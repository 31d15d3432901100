import NIOCore
import NIOPosix

/// Runs tasks that take long on threads of their own, so that neither an event loop's connections nor Swift's pool wait for
/// them (`Documentation/Decisions` 0023).
final class LongWorkExecutor: TaskExecutor {
  static let shared = LongWorkExecutor()

  private let pool = NIOThreadPool(numberOfThreads: NIOCore.System.coreCount)

  private init() { pool.start() }

  func enqueue(_ job: consuming ExecutorJob) {
    let job = UnownedJob(job)
    pool.submit { _ in job.runSynchronously(on: self.asUnownedTaskExecutor()) }
  }
}
