package import Foundation
internal import Settings

/// A certificate that has expired, or will within ``notice``.
package struct CertificateExpiry: Sendable, Hashable {
  /// How long before its end a certificate counts as about to expire: Let's Encrypt's are renewed 30 days
  /// before, so that one this close to its end was not renewed.
  package static let notice: TimeInterval = 14 * 86_400

  package let end: Date
  /// Whether it has expired.
  package let isOver: Bool

  /// Returns nil if the certificate is valid for longer than ``notice``.
  package init?(end: Date, now: Date) {
    guard end.timeIntervalSince(now) < Self.notice else { return nil }
    self.end = end
    isOver = end <= now
  }

  /// `expired on 2026-11-26`
  package var phrase: String { "\(isOver ? "expired" : "expires") on \(end.day)" }

  /// What it means for those who connect.
  package var meaning: String {
    isOver
      ? "The certificate \(phrase): no chat server and no app connects any more."
      : "The certificate \(phrase): after that no chat server and no app connects."
  }

  package static let advice = "renew it; the new one is reloaded by itself"
}
