import Foundation
import HTTP
import TestSupport
import Testing

@Suite struct MigrateCommandTests {
  private var place: Workplace { Fixture.current }

  private static let uuid = "a1000000-0000-4000-8000-000000000001"
  private static let key = String(repeating: "k", count: 64)

  /// A folder of files as COPY writes them, of a server with the given number of Android phones, one of them
  /// in a broken row.
  static func write(to place: Workplace, devices: Int = 3, hostname: String = "chat.example.org") throws {
    try place.write(
      "zulip/zilencer_remotezulipserver.csv",
      """
      id,uuid,api_key,hostname,contact_email,deactivated
      1,\(Self.uuid),\(Self.key),\(hostname),admin@example.org,f

      """)
    try place.write(
      "zulip/zilencer_remoterealm.csv",
      """
      id,server_id,uuid,uuid_owner_secret,host,name,authentication_methods,realm_date_created
      5,1,b1000000-0000-4000-8000-000000000005,secret,chat.example.org,"Our, chat",{},2020-01-01 00:00:00+00

      """)
    try place.write(
      "zulip/zilencer_remotepushdevice.csv",
      """
      device_id,token,token_id,token_kind,expired_time,ios_app_id,realm_id,remote_realm_id
      1,android-token,5059289018417926138,fcm,,,,5
      2,android-token,1,fcm,,,,5

      """)
    let rows = (1...devices).map { "\($0),2,token-\($0),2024-01-01 00:00:00+00,,\($0),,1,5" }
    try place.write(
      "zulip/zilencer_remotepushdevicetoken.csv",
      (["id,kind,token,last_updated,ios_app_id,user_id,user_uuid,server_id,remote_realm_id"] + rows + [""])
        .joined(separator: "\n"))
  }

  private func counts(_ report: JSON, _ table: String) -> JSON? {
    report["tables"]?.elements.first { $0["table"]?.string == "zilencer_\(table)" }
  }

  private func count(_ report: JSON, _ table: String, _ name: String) -> Int64? {
    counts(report, table)?[name]?.integer
  }

  @Test(.place()) func `A folder is brought in and its servers keep their credentials`() async throws {
    try Self.write(to: place)
    let dry = try await place.run("migrate", "zulip", "--from", "zulip", "--dry-run", "--json")
    #expect(dry.status == 0)
    #expect(dry.errors.contains("sqlite:\(place.folder.path)/push-bouncer.sqlite"))
    let early = try await place.run("migrate", "zulip", "--from", "zulip")
    #expect(early.status == 1 && early.errors.contains("push-bouncer init"))
    for file in ["push-bouncer.sqlite", "Keys"] { #expect(!place.exists(file), "\(file)") }
    #expect(try await place.run("init").status == 0)

    let run = try await place.run(
      "migrate", "zulip", "--from", "zulip", "--json", "--rejects", "rejects.csv")
    #expect(run.status == 0)
    #expect(try run.json == dry.json)
    let report = try run.json
    #expect(report["complete"] == true)
    #expect(count(report, "remotezulipserver", "imported") == 1)
    #expect(count(report, "remotepushdevice", "imported") == 1)
    #expect(count(report, "remotepushdevice", "refused") == 1)
    #expect(
      counts(report, "remotepushdevice")?["refused_by_reason"]
        == [["reason": "wrong_token_id", "count": 1]])
    #expect(count(report, "remotepushdevicetoken", "imported") == 3)
    #expect(
      try place.text(of: "rejects.csv") == "table,id,reason\nzilencer_remotepushdevice,2,wrong_token_id\n")
    #expect(!run.errors.contains("android-token") && !run.errors.contains(Self.key))

    let text = try await place.run("migrate", "zulip", "--from", "zulip")
    #expect(text.output.contains("3 already there"))
    #expect(text.output.contains("1 refused: its token_id is not its token's"))

    let servers = try await place.run("server", "list", "--json").json
    #expect(servers["servers"] != nil)
    try await place.serve { running in
      let good = try await running.call(
        path: "/api/v1/remotes/server/analytics/status", user: (Self.uuid, Self.key))
      #expect(good.status == 200)
      let bad = try await running.call(
        path: "/api/v1/remotes/server/analytics/status", user: (Self.uuid, "x" + Self.key.dropFirst()))
      #expect(bad.status == 401)
    }
  }

  @Test func `A signal stops it and the same command imports the rest`() async throws {
    let devices = 60_000
    try await Workplace.test(begun: true) { place in
      try Self.write(to: place, devices: devices)
      try await place.start(["migrate", "zulip", "--from", "zulip", "--json"]) { running in
        await eventually("the first progress") { running.logged.contains("% of all") }
        running.send(SIGTERM)
        #expect(await running.status() == 1)
        #expect(running.logged.contains("the same command imports the rest"))
        let report = try #require(running.printed)
        #expect(report["complete"] == false)
        let read = try #require(count(report, "remotepushdevicetoken", "read"))
        #expect(read < devices)
      }
      // This one is not asked.
      try await place.start(["migrate", "zulip", "--from", "zulip", "--json"]) { running in
        await eventually("the first progress") { running.logged.contains("% of all") }
        running.send(SIGKILL)
        _ = await running.status()
      }
      let last = try await place.run("migrate", "zulip", "--from", "zulip", "--json")
      #expect(last.status == 0)
      #expect(count(try last.json, "remotepushdevicetoken", "read") == Int64(devices))
      let new = try #require(count(try last.json, "remotepushdevicetoken", "imported"))
      let known = try #require(count(try last.json, "remotepushdevicetoken", "already_there"))
      #expect(new + known == Int64(devices))
    }
  }

  @Test(.place(begun: true)) func `What is wrong is said`() async throws {
    let missing = try await place.run("migrate", "zulip", "--from", "nowhere")
    #expect(missing.status == 1 && missing.errors.contains("there is no folder nowhere"))
    #expect(try await place.run("migrate", "zulip").status == 64)
    let password = try await place.run("migrate", "zulip", "--from", "postgres://user:hidden@")
    #expect(password.status == 1 && !password.errors.contains("hidden"))
    try Self.write(to: place)
    try place.write("zulip/zilencer_remotepushdevicetoken.csv", "id,server_id,kind,token\n1,1,2,\"open")
    let broken = try await place.run("migrate", "zulip", "--from", "zulip")
    #expect(broken.status == 1)
    #expect(broken.errors.contains("zilencer_remotepushdevicetoken.csv, line 2: a quote is not closed"))
  }
}
