import Logging

/// A node's log, which the world also reads.
struct NodeLog: LogHandler {
  unowned let world: World
  let life: Life
  var metadata: Logger.Metadata = [:]
  var logLevel = Logger.Level.info

  init(world: World, life: Life) { (self.world, self.life) = (world, life) }

  subscript(metadataKey key: String) -> Logger.Metadata.Value? {
    get { metadata[key] }
    set { metadata[key] = newValue }
  }

  func log(event: LogEvent) {
    guard life.isAlive else { return }
    world.heard(
      "\(event.message)", metadata.merging(event.metadata ?? [:]) { $1 }, level: event.level, from: life)
  }
}
