package import Providers
package import Registrations

/// An error of this program's own whose description is a sentence for whoever has to mend it. Of others nobody reads
/// the description.
package protocol Readable: Error, CustomStringConvertible {}

extension BouncerKeyFiles.Failure: Readable {}
extension CredentialError: Readable {}
extension DatabaseCopy.Failure: Readable {}
extension PushProviders.ConfigurationError: Readable {}
extension StorageKeyRotation.Failure: Readable {}
extension StorageSeal.WrongKey: Readable {}
