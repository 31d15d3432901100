internal import Foundation
internal import NIOCore
internal import SQL

extension Fault {
  /// Any error, in words for whoever has to mend it.
  package init(_ error: any Error) {
    switch error {
    case let fault as Fault: self = fault
    case let error as any Readable: self.init("\(error)")
    case let error as DatabaseError: self.init(error)
    case let error as IOError: self.init(number: error.errnoCode, path: nil)
    case is CancellationError: self.init("it was interrupted", advice: "start it again")
    case let error as POSIXError: self.init(number: error.code.rawValue, path: nil)
    case let error as CocoaError:
      guard let path = error.filePath ?? error.url?.path else {
        self.init(unexpected: error)
        return
      }
      if let number = error.systemNumber {
        self.init(number: number, path: path)
      } else {
        self.init(source: path, "cannot be used", advice: "look at the file")
      }
    default: self.init(unexpected: error)
    }
  }

  /// What the system has said of a file, or of something else.
  init(number: CInt, path: String?) {
    guard let path else {
      self.init("something that it needs \(FileObstacle.words(number))", advice: FileObstacle.advice(number))
      return
    }
    self.init(source: path, FileObstacle.words(number), advice: FileObstacle.advice(number))
  }

  private init(unexpected error: any Error) {
    self.init(
      "something went wrong that this program does not know (\(String(reflecting: type(of: error))))",
      advice: "please report it, with what you did")
  }
}

extension CocoaError {
  /// What the system has said to Foundation.
  fileprivate var systemNumber: CInt? {
    if let cause = underlying as? POSIXError { return cause.code.rawValue }
    switch code {
    case .fileNoSuchFile, .fileReadNoSuchFile: return ENOENT
    case .fileReadNoPermission, .fileWriteNoPermission: return EACCES
    case .fileWriteOutOfSpace: return ENOSPC
    case .fileWriteFileExists: return EEXIST
    case .fileWriteVolumeReadOnly: return EROFS
    default: return nil
    }
  }
}
