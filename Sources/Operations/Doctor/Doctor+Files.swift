internal import Foundation
internal import Migrations
internal import SQL
internal import Sealing
internal import Storage

extension Doctor {
  func keyFindings(_ snapshot: KeyFolder.Snapshot) -> [Finding] {
    let directory = configuration.keys.directory
    var findings = snapshot.problems.map { problem in
      Finding.bad(
        "keys", "\(directory)/\(problem.file): \(problem.message)", advice: "mend or remove that file")
    }
    let keys = snapshot.bouncer.all
    if keys.isEmpty {
      findings.append(
        .bad("keys", "no bouncer key in \(directory)", advice: "make one: push-bouncer keys generate"))
    } else if !keys.contains(where: { $0.state == .active }) {
      findings.append(
        .bad("keys", "every bouncer key is retired", advice: "make a new one: push-bouncer keys generate"))
    } else if findings.isEmpty {
      findings.append(.good("keys", "\(keys.count) bouncer key\(keys.count == 1 ? "" : "s")"))
    }
    return findings
  }

  func permissionFinding() -> Finding {
    let directory = configuration.keys.directory
    let exposed = KeyFolder.exposedFiles(in: directory).map { "\(directory)/\($0)" }
    guard !exposed.isEmpty else { return .good("permissions", "nobody else can read the keys") }
    return .bad(
      "permissions", "others can read \(exposed.joined(separator: ", "))",
      advice: "chmod 600 \(exposed.joined(separator: " "))")
  }

  func strengthFindings() -> [Finding] {
    let weaknesses = configuration.weaknesses
    guard !weaknesses.isEmpty else { return [.good("strength", "no token is weak, and none is missing")] }
    return weaknesses.map { .bad("strength", "\($0.key) \($0.problem)", advice: $0.advice) }
  }

  func descriptorFinding() -> Finding {
    let wanted = configuration.http.maxConnections
    guard let shortage = descriptors.shortage(wanted) else {
      return .good(
        "descriptors", "\(descriptors) descriptors: room for \(descriptors.connections(wanted)) connections")
    }
    return .bad(
      "descriptors", shortage,
      advice: """
        allow \(DescriptorLimit.needed(for: wanted)): ulimit -n, or LimitNOFILE= where systemd starts the service
        """)
  }

  /// The database is looked at only if it is there, and not migrated: a service of another version may run on it.
  func databaseFinding() async -> Finding {
    let url = configuration.database.url
    if let path = url.sqlitePath, !FileManager.default.fileExists(atPath: path) {
      let folder = URL(fileURLWithPath: path).deletingLastPathComponent().path
      return FileManager.default.isWritableFile(atPath: folder)
        ? .good("database", "\(url) is not there yet; serve makes it")
        : .bad(
          "database", "\(url) cannot be made", advice: "make the folder \(folder), writable for this user")
    }
    do {
      let database = try await openDatabase(url: url)
      let finding = await databaseFinding(database)
      await database.close()
      return finding
    } catch {
      return Self.fault(error, of: url)
    }
  }

  private func databaseFinding(_ database: any Database) async -> Finding {
    let url = configuration.database.url
    do {
      let version = try await Migrator.version(of: database)
      guard version > 0 else {
        return .good("database", "\(url) is empty; serve fills it")
      }
      guard let key = try KeyFolder.existingStorageKey(in: configuration.keys.directory) else {
        return .bad(
          "database", "\(configuration.keys.directory)/storage.key is missing, and \(url) was sealed with it",
          advice: "put the file back from a backup before anything else")
      }
      guard try await StorageSeal.matches(key, in: database) ?? true else {
        return .bad(
          "database", "\(url) was sealed with another storage.key",
          advice: "put that file back: look at keys.directory and database.url")
      }
      guard key.ids.count == 1 else {
        return .bad(
          "database", "storage.key holds a new key beside the old one: its change is not at its end",
          advice: "run keys rotate-storage, unless it is running; it goes on where it was")
      }
      let isOlder = version < Schema.version
      return version > Schema.version
        ? .bad("database", "\(url) belongs to a newer push-bouncer", advice: "use that one")
        : .good("database", "\(url)\(isOlder ? " is older; serve brings it up to date" : "")")
    } catch {
      return Self.fault(error, of: url)
    }
  }

  private static func fault(_ error: any Error, of url: DatabaseURL) -> Finding {
    // Other errors could hold a value.
    let detail =
      (error as? DatabaseError)?.description ?? (error as? KeyFolder.InvalidStorageKey)?.description
    return .bad(
      "database", "\(url): \(detail ?? "\(type(of: error))")",
      advice: "look at database.url, the file's owner and the space on the disk")
  }

  func tlsFinding(_ tls: Configuration.TLS) -> Finding {
    do {
      _ = try tls.serverContext()
      let end = try tls.end()
      let left = end.timeIntervalSince(now()) / 86_400
      let detail =
        "the certificate \(left < 0 ? "ended" : "ends") on \(end.formatted(.iso8601.year().month().day()))"
      return left < 14 ? .bad("tls", detail, advice: "renew it") : .good("tls", detail)
    } catch {
      return .bad("tls", "\(error)", advice: "mend that key of the configuration")
    }
  }
}
