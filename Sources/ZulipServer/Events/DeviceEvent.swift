/// Something that happened to a device, for its user's clients.
package struct DeviceEvent: Sendable, Hashable {
  /// What happened.
  package enum Operation: Sendable, Hashable {
    /// It is new.
    case added
    /// It is gone.
    case removed
    /// These parts of it changed, to what they are in this state.
    case updated(Device.Fields, Device.State)
  }

  /// Its place among the user's events, from 1.
  package let number: Int64
  /// The device's id.
  package let device: Int64
  /// What happened.
  package let operation: Operation
}
