import Delivery

/// A delivery of ours; the simulator has a type of that name too.
typealias Outgoing = RegisteredPush
