package import Sealing

extension StorageKey {
  /// What stands for a Web Push endpoint in the database, so that it is found without being kept in clear.
  package func hash(endpoint url: String) -> [UInt8] {
    hash(url, for: Purpose("registrations.endpoint_hash"))
  }
}
