/// Something that happened to a device, for its user's clients.
struct DeviceEvent: Sendable, Hashable {
  /// What happened.
  enum Operation: Sendable, Hashable {
    /// It is new.
    case added
    /// It is gone.
    case removed
    /// These parts of it changed, to what they are in this state.
    case updated(Device.Fields, Device.State)
  }

  /// Its place among the user's events, from 1.
  let number: Int64
  /// The device's id.
  let device: Int64
  /// What happened.
  let operation: Operation
}
