import Foundation
import Testing

@Suite struct VectorsTests {
  @Test func `the vectors can be read`() throws {
    let vectors = try JSONSerialization.jsonObject(with: Data(PackageResources.vectors_json))
    #expect((vectors as? [String: Any])?.isEmpty == false)
  }
}
