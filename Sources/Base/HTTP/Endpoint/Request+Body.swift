package import HTTPTypes
package import Hummingbird
package import NIOCore

extension Request {
  /// The whole body. If its declared length is over the limit, it is refused unread.
  ///
  /// - Throws: `NIOTooManyBytesError` if it is longer than `limit`, ``BodyBudget/Exceeded`` if the budget has
  ///   no room at present.
  package func wholeBody(upTo limit: Int) async throws -> ByteBuffer {
    let declared = headers.value(.contentLength).flatMap { Int($0) }
    if let declared, declared > limit { throw NIOTooManyBytesError(maxBytes: limit) }
    var whole = ByteBuffer()
    for try await part in body {
      guard whole.readableBytes + part.readableBytes <= limit else {
        throw NIOTooManyBytesError(maxBytes: limit)
      }
      if whole.readableBytes == 0 {
        // Usually the first part is the whole body.
        whole = part
        if let declared { whole.reserveCapacity(declared) }
      } else {
        whole.writeImmutableBuffer(part)
      }
    }
    return whole
  }
}

/// What a request's head says of its body, and how long it is itself.
package struct BodyFraming: Sendable {
  /// The declared length, if it is a valid number.
  package private(set) var length: Int?
  package private(set) var mayBeThere = false
  package private(set) var expectation: String?
  /// Bytes of the head's path and fields.
  private(set) var headBytes: Int

  package init(_ head: HTTPRequest) {
    var lengths = 0
    headBytes = head.path?.utf8.count ?? 0
    for field in head.headerFields {
      headBytes += field.name.rawName.utf8.count + field.value.utf8.count
      switch field.name {
      case .contentLength:
        lengths += 1
        length = lengths == 1 ? Int(field.value) : nil
        if lengths > 1 || field.value != "0" { mayBeThere = true }
      case .transferEncoding: mayBeThere = true
      case .expect: expectation = expectation.map { "\($0), \(field.value)" } ?? field.value
      default: break
      }
    }
  }

  /// Whether the body may be long: it is read only once the handler asks for it, and handled by ``LongWorkExecutor``. A short
  /// one is read at once, and handled on the event loop.
  package var isLong: Bool {
    mayBeThere && (expectation != nil || (length ?? .max) > 16 << 10)
  }
}

/// An outbound event that tells a connection to read more of its request's body.
package struct BodyWanted: Sendable {}

extension BodyCharge {
  /// Charges a short body, which is there already. Where there is no room, whoever reads it learns that, and says it as its wire
  /// does.
  func take(_ length: Int, of request: inout Request) {
    do {
      try add(length, isAll: true)
    } catch {
      request.body = RequestBody(asyncSequence: AsyncThrowingStream<ByteBuffer, any Error> { throw error })
    }
  }
}

/// A long body, which is charged to the budget as it arrives. No more of it is read than the handler asks for.
struct MeteredBody: AsyncSequence, Sendable {
  typealias Element = ByteBuffer

  let body: RequestBody
  let charge: BodyCharge
  let declared: Int
  /// The connection to send ``BodyWanted`` to; nil in a call within the process.
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
    /// Whether the first part was the whole body, as it usually is.
    var isWhole = false

    @concurrent mutating func next() async throws -> ByteBuffer? {
      let isFirst = !hasBegun
      hasBegun = true
      if let channel {
        if isFirst { try charge.checkRoom(for: declared) }
        channel.triggerUserOutboundEvent(BodyWanted(), promise: nil)
      }
      guard let part = try await body.next() else {
        if !isWhole { charge.markComplete() }
        return nil
      }
      isWhole = isFirst && part.readableBytes == declared
      try charge.add(part.readableBytes, isAll: isWhole)
      return part
    }
  }
}

extension HTTPFields {
  /// Like `self[name]`, but several times as fast if there is at most one value, which it does not join.
  package func value(_ name: HTTPField.Name) -> String? {
    guard let index = firstIndex(where: { $0.name == name }) else { return nil }
    let isAlone = !self[(index + 1)...].contains { $0.name == name }
    return isAlone ? self[index].value : self[name]
  }
}
