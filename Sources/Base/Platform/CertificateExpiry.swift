import Basics
package import Foundation

/// The time for which a certificate is valid.
package struct CertificateLife: Sendable, Hashable {
  package let start: Date
  package let end: Date

  /// When it has to have been renewed: when a quarter of its life is left, at most 14 days. Whatever renews certificates
  /// does that earlier, so that one this close to its end was not renewed; and certificates live for 90 days, for 45,
  /// or for 160 hours.
  package var renewal: Date { end - min(max(0, end.timeIntervalSince(start)) / 4, 14 * 86_400) }
}

/// A certificate that has expired, or has not been renewed in time.
package struct CertificateExpiry: Sendable, Hashable {
  package let end: Date
  /// Whether it has expired.
  package let isOver: Bool

  /// Returns nil if the certificate does not have to have been renewed yet.
  package init?(_ life: CertificateLife, now: Date) {
    guard now >= life.renewal else { return nil }
    end = life.end
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
