public import ServiceLifecycle
public final class ProviderSimulator: Sendable, Service {
  public struct Configuration: Sendable { public var apnsPort = 0; public var fcmPort = 0; public var topics: [String] = []; public init() {} }
  public let apnsPort = 0, fcmPort = 0
  public static func start(_ c: Configuration, reusing: String? = nil) async throws -> ProviderSimulator { fatalError() }
  public func writeKeys(to: String) throws {}
  public func run() async throws {}
}
