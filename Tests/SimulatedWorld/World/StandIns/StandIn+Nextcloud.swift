import Foundation

/// Push proxies as they must not be.
extension StandIn {
  static let nextcloud: [StandIn] = [
    // Whoever leaves takes everybody along: the removal compares nothing.
    StandIn(
      "proxy-removes-all", replacing: "WHERE device_identifier = $1 AND user_key = $2",
      by: "WHERE LENGTH($1) + LENGTH($2) > 0 AND wire = 3",
      where: { $0.hasPrefix("DELETE FROM registrations") }),
    // A renewal with a new token keeps the old one.
    StandIn(
      "proxy-keeps-token", replacing: "token_sha512 = $3, token = $4,", by: "",
      where: { $0.contains("UPDATE registrations") }),
    // An old answer of a provider ends what was registered anew since.
    StandIn(
      "proxy-ends-the-renewed", replacing: "WHERE id = $1 AND registered_at = $2",
      by: "WHERE id = $1 AND $2 > 0",
      where: { $0.hasPrefix("SELECT token_hash, kind, target FROM registrations") }),
    {
      // A server is never told whom to forget.
      var standIn = StandIn(name: "proxy-tells-no-deaths")
      standIn.reply = { endpoint, answer in
        guard endpoint == "notifications", let answer else { return answer }
        return Answer(status: answer.status, text: answer.text.replacing("unknown", with: "nothing"))
      }
      return standIn
    }(),
    {
      // Everything counts as sent.
      var standIn = StandIn(name: "proxy-sends-all")
      standIn.reply = { endpoint, answer in
        guard endpoint == "notifications", answer?.status == 200, answer?.text.contains("[]") == true else {
          return answer
        }
        return Answer(status: 200, text: #"{"unknown":[],"failed":0}"#)
      }
      return standIn
    }(),
  ]
}
