import AsyncHTTPClient
import Foundation
import NIOCore
import NIOHTTP1
import NIOSSL
import Operations
import Server

/// Asks FCM for the time, through the same proxy and with the same trust as pushes.
enum ProviderTime {
  /// The `Date` of the answer (RFC 9110 section 6.6.1), whatever its status; nil without one.
  static func ask(_ configuration: Configuration) async -> Date? {
    guard let url = configuration.fcm.endpoint else { return nil }
    var settings = HTTPClient.Configuration.outgoing(configuration.providers)
    // Who is not there does not tell the time a moment later either.
    settings.connectionPool.retryConnectionEstablishment = false
    let client = HTTPClient(eventLoopGroupProvider: .singleton, configuration: settings)
    let answer = try? await client.execute(HTTPClientRequest(url: url.absoluteString), timeout: .seconds(10))
    try? await client.shutdown()
    return answer?.headers.first(name: "date").flatMap(parse)
  }

  /// `Sun, 06 Nov 1994 08:49:37 GMT`
  static func parse(_ text: String) -> Date? {
    let formatter = DateFormatter()
    formatter.locale = Locale(identifier: "en_US_POSIX")
    formatter.timeZone = .gmt
    formatter.dateFormat = "EEE, dd MMM yyyy HH:mm:ss 'GMT'"
    return formatter.date(from: text)
  }
}
