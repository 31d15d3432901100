package import HTTPTypes
package import Hummingbird
package import NIOCore

extension Request {
  /// The whole body. One that is said to be longer is refused before any of it is read.
  ///
  /// - Throws: `NIOTooManyBytesError` if it is longer than `limit`, ``BodyBudget/Exceeded`` if there is no room
  ///   for it now.
  package func wholeBody(upTo limit: Int) async throws -> ByteBuffer {
    let declared = BodyFraming(head).length
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

/// What the head of a request says of its body.
package struct BodyFraming: Sendable {
  /// Its length, if that is a number.
  package private(set) var length: Int?
  package private(set) var mayBeThere = false
  package private(set) var expectation: String?

  package init(_ head: HTTPRequest) {
    var lengths = 0
    for field in head.headerFields {
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

  /// Whether the body is left with the sender until it is wanted. A short one is not worth the asking.
  package var isToBeAskedFor: Bool {
    mayBeThere && (expectation != nil || (length ?? .max) > 16 << 10)
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
    /// Whether all of it came in the first part, as most bodies do.
    var isWhole = false

    mutating func next() async throws -> ByteBuffer? {
      let isFirst = !hasBegun
      hasBegun = true
      // A short body is refused soon enough when it comes.
      if isFirst, let channel {
        try charge.begin(expecting: declared)
        channel.triggerUserOutboundEvent(BodyWanted(), promise: nil)
      }
      guard let part = try await body.next() else {
        if !isWhole { charge.end() }
        return nil
      }
      isWhole = isFirst && part.readableBytes == declared
      try charge.add(part.readableBytes, isAll: isWhole)
      return part
    }
  }
}

extension HTTPFields {
  /// The same as `self[name]`, which joins even a single value: several times as fast where there is one or none.
  package func value(_ name: HTTPField.Name) -> String? {
    guard let index = firstIndex(where: { $0.name == name }) else { return nil }
    let isAlone = !self[(index + 1)...].contains { $0.name == name }
    return isAlone ? self[index].value : self[name]
  }
}
