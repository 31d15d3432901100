import NIOCore

/// What a peer's frames may cost that bring nothing: header blocks that are no answer, pings, settings, empty and unknown
/// frames. It grows with time and with every request, and answers cost nothing.
///
/// A header block of a few hundred bytes has a field for each of them: a megabyte of such takes as long as 2,000 answers.
struct FrameAllowance {
  /// In frames and header fields.
  private static let most = 5000
  private static let perSecond = 100
  /// More than the peers of real life need besides an answer.
  static let perRequest = 50

  private var left = Self.most
  private var grown = NIODeadline.now()

  /// - Throws: ``HTTP2Input/Violation`` if there is not so much left.
  mutating func spend(_ cost: Int) throws(HTTP2Input.Violation) {
    left -= cost
    guard left < 0 else { return }
    let now = NIODeadline.now()
    let seconds = Int((now - grown).nanoseconds / 1_000_000_000)
    // Parts of a second are kept for the next time.
    grown = grown + .seconds(Int64(seconds))
    left += min(seconds, Self.most / Self.perSecond) * Self.perSecond
    guard left >= 0 else { throw HTTP2Input.Violation() }
  }

  /// Something has come that was asked for, or has been asked for.
  mutating func earn(_ worth: Int) { left = min(left + worth, Self.most) }
}
