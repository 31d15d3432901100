import Basics
import Foundation

/// A text of a page, in pieces that may be marked, linked, or stand for a time.
struct PageText: Sendable, ExpressibleByStringInterpolation {
  struct Piece: Sendable {
    let text: String
    /// Classes of the style sheet.
    var mark: String?
    /// A path of this service.
    var link: String?
    /// The time that the text stands for, ISO 8601.
    var time: String?
  }

  let pieces: [Piece]

  init(stringLiteral text: String) { self.init(text) }

  /// - Parameter text: cut after 255 characters.
  init(_ text: String, mark: String? = nil, link: String? = nil, time: String? = nil) {
    pieces = [Piece(text: text.cut, mark: mark, link: link, time: time)]
  }

  private init(pieces: [Piece]) { self.pieces = pieces }

  /// A text of this program, which is not cut.
  static func sentence(_ text: String, mark: String? = nil) -> PageText {
    PageText(pieces: [Piece(text: text, mark: mark)])
  }

  static func + (left: PageText, right: PageText) -> PageText { PageText(pieces: left.pieces + right.pieces) }

  static let empty = PageText(pieces: [])
  /// Stands for an unknown value.
  static let none = PageText("-", mark: "faint none")

  static func number(_ number: some BinaryInteger) -> PageText { PageText(Phrase.number(number)) }
  static func number(_ number: Int64?) -> PageText { number.map { Self.number($0) } ?? none }

  /// A number that is highlighted unless it is zero.
  static func bad(_ number: Int64?, _ tone: String = "bad") -> PageText {
    guard let number else { return none }
    return number == 0 ? PageText("0", mark: "faint") : PageText(Phrase.number(number), mark: "word \(tone)")
  }

  static func age(_ date: Date?, at now: Date) -> PageText {
    guard let date else { return PageText("never", mark: "faint") }
    return PageText(Phrase.age(date, at: now), time: date.formatted(.iso8601))
  }

  static func optional(_ text: String?) -> PageText { text.map { PageText($0) } ?? none }

  static func code(_ text: String) -> PageText { PageText(text, mark: "code") }

  static func deactivated(_ isDeactivated: Bool) -> PageText {
    isDeactivated ? " " + PageText("deactivated", mark: "word doubtful") : empty
  }

  /// A rate per minute.
  static func rate(_ perMinute: Double) -> String {
    switch perMinute {
    case 0: "0"
    case ..<0.05: "< 0.1"
    case ..<10: String(format: "%.1f", perMinute)
    default: Phrase.number(Int(perMinute.rounded()))
    }
  }
}

/// A large number with a caption.
struct Figure: Sendable {
  let value: PageText
  let caption: String

  init(_ value: PageText, _ caption: String) {
    self.value = value
    self.caption = caption
  }
}
