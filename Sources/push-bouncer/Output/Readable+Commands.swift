import Demo
import Operations
import ProviderSimulator
import ZulipImport
import ZulipServer

// The errors of modules that do not know who reads them.
extension BouncerError: Readable {}
extension CommandError: Readable {}
extension CredentialsError: Readable {}
extension DemoError: Readable {}
extension ZulipSourceError: Readable {}
