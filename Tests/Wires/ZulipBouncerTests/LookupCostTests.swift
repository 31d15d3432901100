import HTTP
import Registrations
import TestSupport
import Testing

@testable import ZulipBouncer

/// What a registered server sends costs twice as much if it is twice as long: a lookup for each member would
/// cost four times as much.
@Suite struct LookupCostTests {
  private static let count = 20_000

  private func expectLinear(_ cost: (Int) throws -> Double) rethrows {
    _ = try cost(100)
    let (once, twice) = (try cost(Self.count), try cost(2 * Self.count))
    #expect(twice < 3 * once + 0.1)
  }

  @Test func `Authentication methods of a realm, however many`() throws {
    try expectLinear { count in
      let methods = (0..<count).map { "\"the_method_of_authentication_no_\($0)\":true" }.joined(
        separator: ",")
      let realm = """
        [{"id":1,"host":"h","url":"u","date_created":1.5,"deactivated":false,\
        "authentication_methods":{\(methods)},"uuid":"aa9c4b3e-5b6c-4d0f-8a7b-0123456789ab",\
        "uuid_owner_secret":"s"}]
        """
      let fields = [("realm_counts", "[]"), ("installation_counts", "[]"), ("realms", realm)]
      return try cpuSeconds {
        var parameters = HTTP.Parameters(fields.map { (name: $0, value: $1) })
        // They are too long to be taken; finding that out is what costs.
        #expect(throws: APIError.self) { try AnalyticsUpload(&parameters) }
      }
    }
  }

  @Test func `Members of aps, however many`() throws {
    try expectLinear { count in
      let aps = (0..<count).map { "\"the_member_of_the_payload_number_\($0)\":1" }.joined(separator: ",")
      let body = """
        {"realm_uuid":"r","push_requests":[{"token_id":"AAAAAAAAAAA=",\
        "http_headers":{"apns_priority":10,"apns_push_type":"alert"},\
        "payload":{"push_key_id":1,"encrypted_data":"x","aps":{\(aps)}}}]}
        """
      return try cpuSeconds {
        let field = Field(try JSON.parse(body), path: "request")
        #expect((try? NotifyRequest(field)) != nil)
      }
    }
  }
}
