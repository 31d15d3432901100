internal import Foundation
internal import Sealing

extension Doctor {
  func keyFindings(_ snapshot: KeyFolder.Snapshot) -> [Finding] {
    let directory = configuration.keys.directory
    var findings = snapshot.problems.map { problem in
      Finding.bad(
        "keys", "\(directory)/\(problem.file): \(problem.message)",
        advice: "correct that file or remove it; it is read again by itself")
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

  /// Too few descriptors for a busy service are enough for it to start.
  func shortageFinding() -> [Finding] {
    let wanted = configuration.http.maxConnections
    guard let shortage = descriptors.shortage(wanted) else { return [] }
    return [.bad("descriptors", shortage, advice: DescriptorLimit.advice(wanted))]
  }

  /// A certificate that has ended keeps nobody from starting: it is taken up when it has been renewed.
  func expiryFinding() -> [Finding] {
    configuration.http.tls?.expiry(now: now(), within: 14).map { [.bad("tls", $0)] } ?? []
  }

  /// A change of the storage key that was stopped half-way.
  func rotationFinding() async -> [Finding] {
    guard let key = try? KeyFolder.existingStorageKey(in: configuration.keys.directory), key.ids.count > 1
    else {
      return []
    }
    return [
      .bad(
        "storage.key", "holds a new key beside the old one: its change is not at its end",
        advice: "run push-bouncer keys rotate-storage, unless it is running; it goes on where it was")
    ]
  }
}
