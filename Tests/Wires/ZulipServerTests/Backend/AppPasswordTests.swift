import Foundation
import HTTP
import HTTPTypes
import Registrations
import SQL
import TestSupport
import Testing

@Suite("App passwords", .host) struct AppPasswordTests {
  private let host = Fixture<Host>.current

  @Test
  func `are shown once and open until they are removed`() async throws {
    let user = try await host.user()
    let made = try await host.call(.post, "\(user)/app-passwords", ["name": " Phone\t"])
    #expect(made.status == 201)
    #expect(made.members == ["id", "name", "password"])
    #expect(made.json["name"] == "Phone")
    #expect(made.headers[.cacheControl]?.contains("no-store") == true)
    let password = try #require(made.json["password"]?.string)
    #expect(password.utf8.count == 72)
    #expect(password.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber) })
    #expect(try await host.accounts.login("iago", secret: password)?.user.userID == 10)

    let id = try #require(made.json["id"]?.integer)
    let stranger = try await host.user("cordelia@example.org", id: 11)
    for path in ["\(stranger)/app-passwords/\(id)", "\(user)/app-passwords/\(id + 1)"] {
      let answer = try await host.call(.delete, path)
      #expect(answer.status == 404)
      #expect(answer.json["code"] == "APP_PASSWORD_NOT_FOUND")
    }
    #expect(try await host.accounts.login("iago", secret: password) != nil)
    let removed = try await host.call(.delete, "\(user)/app-passwords/\(id)")
    #expect(removed.status == 200 && removed.text == "{}\n")
    #expect(try await host.accounts.login("iago", secret: password) == nil)
    #expect(try await host.status(.delete, "\(user)/app-passwords/\(id)") == 404)
  }

  @Test
  func `are made for a Nextcloud app that waits, when the host application says so`() async throws {
    let user = try await host.user()
    let flows = NextcloudLoginFlows(accounts: host.accounts)
    let secrets = try await flows.open(client: "Talk", address: "192.0.2.1")
    for (path, body, status): (String, JSON, Int) in [
      (user, ["token": .string(secrets.poll)], 404), (user, ["token": ""], 404), (user, [:], 400),
      (user, ["token": 7], 400), (user, ["token": .string(secrets.login), "name": "Talk"], 400),
      (user + "1", ["token": .string(secrets.login)], 404),
    ] {
      #expect(try await host.status(.post, "\(path)/login-flows", body) == status)
    }
    #expect(try await flows.finish(poll: secrets.poll) == nil)
    let granted = try await host.call(.post, "\(user)/login-flows", ["token": .string(secrets.login)])
    #expect(granted.status == 200 && granted.text == "{}\n")
    let again = try await host.call(.post, "\(user)/login-flows", ["token": .string(secrets.login)])
    #expect(again.status == 404)
    #expect(again.json["code"] == "LOGIN_FLOW_NOT_FOUND")
    let password = try #require(try await flows.finish(poll: secrets.poll)).password
    #expect(try await host.accounts.login("iago", secret: password)?.user.userID == 10)
  }

  @Test
  func `are a hundred at most`() async throws {
    let user = try await host.user()
    let path = "\(user)/app-passwords"
    for _ in 1...100 { #expect(try await host.call(.post, path, ["name": "Phone"]).status == 201) }
    let refused = try await host.call(.post, path, ["name": "Phone"])
    #expect(refused.status == 400)
    #expect(refused.json["code"] == "TOO_MANY_APP_PASSWORDS")
    let other = try await host.user("cordelia@example.org", id: 11)
    #expect(try await host.status(.post, "\(other)/app-passwords", ["name": "Phone"]) == 201)
  }

  @Test(
    arguments: [
      ([:], "name"), (["name": ""], "name"), (["name": "a\u{0}"], "name"),
      (["name": .string(String(repeating: "a", count: 101))], "name"),
      (["name": "a", "password": "mine"], "password"),
    ] as [(JSON, String)])
  func `have a name and nothing else`(_ body: JSON, _ field: String) async throws {
    let user = try await host.user()
    let answer = try await host.call(.post, "\(user)/app-passwords", body)
    #expect(answer.status == 400)
    #expect(answer.message.contains("[\"\(field)\"]"))
    #expect(try await host.dump()["app_passwords"] == [])
  }

  @Test(arguments: ["x", "-1", "01"])
  func `have a number in their path`(_ number: String) async throws {
    let user = try await host.user()
    let answer = try await host.call(.delete, "\(user)/app-passwords/\(number)")
    #expect(answer.status == 400)
    #expect(answer.message.contains("app_password_id"))
  }

  @Test
  func `and keys are nowhere in the database's files`() async throws {
    let user = try await host.user()
    let given = String(repeating: "Zq7", count: 10) + "Zq"
    let made = try await host.call(.put, "\(user)1", ["email": "b@example.org"])
    let key = try #require(made.json["api_key"]?.string)
    _ = try await host.call(.put, user, ["email": "iago@example.org", "api_key": .string(given)])
    let answer = try await host.call(.post, "\(user)/app-passwords", ["name": "Phone of Iago"])
    let password = try #require(answer.json["password"]?.string)
    let files = try await host.contents()
    // That these are found shows that it is the right place to look.
    #expect(files.range(of: Data("Phone of Iago".utf8)) != nil)
    #expect(files.range(of: Data("iago@example.org".utf8)) != nil)
    for secret in [given, key, password] {
      #expect(files.range(of: Data(secret.utf8)) == nil)
      #expect(files.range(of: Data(secret.utf8.prefix(16))) == nil)
    }
  }
}
