/// A parser of the product with the properties that must hold for any input. The fuzzer and the test suite
/// that replays cases run it.
package protocol FuzzTarget: SendableMetatype {
  /// The target's name in Scripts/proof/fuzz and in the folders of cases.
  static var name: String { get }
  /// The most CPU time per byte of input, in nanoseconds, in addition to ``baseTime``. A slower input is a
  /// finding.
  static var timePerByte: Double { get }
  /// The CPU time that any input may take, in nanoseconds.
  static var baseTime: Double { get }
  /// Parses the bytes as the product does.
  ///
  /// - Throws: ``BrokenProperty`` where a property does not hold.
  static func run(_ bytes: [UInt8]) throws
}

extension FuzzTarget {
  package static var timePerByte: Double { 5000 }
  package static var baseTime: Double { 20_000_000 }
}

/// A property that did not hold.
package struct BrokenProperty: Error, CustomStringConvertible {
  package let description: String
}

/// - Throws: ``BrokenProperty`` unless it holds.
func check(_ holds: Bool, _ property: @autoclosure () -> String) throws(BrokenProperty) {
  guard holds else { throw BrokenProperty(description: property()) }
}

/// - Throws: ``BrokenProperty`` unless it is what is expected.
func check<Value: Equatable>(
  _ value: Value?, is expected: Value, _ property: @autoclosure () -> String
) throws(BrokenProperty) {
  try check(value == expected, property())
}

/// All targets, in the order in which Scripts/proof/fuzz runs them.
package let fuzzTargets: [any FuzzTarget.Type] = [
  JSONTarget.self, FormTarget.self, NotifyE2EETarget.self, NotifyLegacyTarget.self,
  SealedRegistrationTarget.self,
  NextcloudDevicesTarget.self, NextcloudNotificationsTarget.self, OCSTarget.self, ProxyAnswerTarget.self,
  HTTP2Target.self, APNsAnswerTarget.self, FCMAnswerTarget.self, WebPushAnswerTarget.self,
  WebPushSubscriptionTarget.self, CSVTarget.self, YAMLTarget.self, KeyFilesTarget.self, PEMTarget.self,
  StorageKeyTarget.self, WebPushGatewayTarget.self,
]
