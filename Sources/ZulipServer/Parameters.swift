internal import Wire

/// Hummingbird has parameters of its own, those of a path.
typealias Parameters = Wire.Parameters
