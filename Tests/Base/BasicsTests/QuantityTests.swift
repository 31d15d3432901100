import Basics
import Testing

@Suite struct QuantityTests {
  @Test(
    arguments: [
      ("500ms", .milliseconds(500)), ("10s", .seconds(10)), ("4.35s", .milliseconds(4350)),
      ("5m", .seconds(300)), ("24h", .seconds(86_400)), ("30 d", .seconds(30 * 86_400)), ("7", .seconds(7)),
      ("", nil), ("s", nil), ("-1s", nil), ("1w", nil), ("inf", nil), ("nan", nil), ("1e300h", nil),
      ("ten", nil),
    ] as [(String, Duration?)])
  func `Durations have units`(_ text: String, _ duration: Duration?) {
    #expect(Quantity.duration(text) == duration)
  }

  @Test(
    arguments: [
      ("1048576", 1 << 20), ("512 KiB", 512 << 10), ("16MiB", 16 << 20), ("1 GiB", 1 << 30), ("", nil),
      ("0", nil), ("-1", nil), ("1.5 MiB", nil), ("1 MB", nil), ("9223372036854775807 GiB", nil),
    ] as [(String, Int?)])
  func `Sizes have units`(_ text: String, _ size: Int?) {
    #expect(Quantity.size(text) == size)
  }
}
