package import HTTPTypes
package import Hummingbird
package import NIOCore

extension Request {
  /// The whole body. One that is said to be longer is refused before any of it is read.
  ///
  /// - Throws: `NIOTooManyBytesError` if it is longer than `limit`, ``BodyBudget/Exceeded`` if there is no room
  ///   for it now.
  package func wholeBody(upTo limit: Int) async throws -> ByteBuffer {
    let declared = head.contentLength
    if let declared, declared > limit { throw NIOTooManyBytesError(maxBytes: limit) }
    var whole = ByteBuffer()
    for try await part in body {
      guard whole.readableBytes + part.readableBytes <= limit else {
        throw NIOTooManyBytesError(maxBytes: limit)
      }
      if whole.readableBytes == 0 {
        // Mostly that is all.
        whole = part
        if let declared { whole.reserveCapacity(declared) }
      } else {
        whole.writeImmutableBuffer(part)
      }
    }
    return whole
  }
}

extension HTTPRequest {
  /// What it says of its body's length, if that is a number.
  package var contentLength: Int? { headerFields[.contentLength].flatMap { Int($0) } }

  /// Whether there may be a body.
  var mayHaveBody: Bool {
    headerFields[.transferEncoding] != nil || (headerFields[.contentLength].map { $0 != "0" } ?? false)
  }

  /// Whether the body is left with the sender until it is wanted. A short one is not worth the asking.
  package var hasBodyToBeAskedFor: Bool {
    guard mayHaveBody else { return false }
    return headerFields[.expect] != nil || (contentLength ?? .max) > 16 << 10
  }
}

/// Goes out through the pipeline of a connection when the body of its request is to be read.
package struct BodyWanted: Sendable {}

/// A body that counts as it comes, and is asked for when somebody wants it.
struct MeteredBody: AsyncSequence, Sendable {
  typealias Element = ByteBuffer

  let body: RequestBody
  let charge: BodyCharge
  let declared: Int
  /// Whom to ask; nil if it comes without.
  let channel: (any Channel)?

  func makeAsyncIterator() -> AsyncIterator {
    AsyncIterator(body: body.makeAsyncIterator(), charge: charge, declared: declared, channel: channel)
  }

  struct AsyncIterator: AsyncIteratorProtocol {
    var body: RequestBody.AsyncIterator
    let charge: BodyCharge
    let declared: Int
    let channel: (any Channel)?
    var hasBegun = false

    mutating func next() async throws -> ByteBuffer? {
      if !hasBegun {
        hasBegun = true
        try charge.begin(expecting: declared)
        channel?.triggerUserOutboundEvent(BodyWanted(), promise: nil)
      }
      guard let part = try await body.next() else {
        charge.end()
        return nil
      }
      try charge.add(part.readableBytes)
      return part
    }
  }
}
