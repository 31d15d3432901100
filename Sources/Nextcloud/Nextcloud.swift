/// The push proxy as Nextcloud's servers and apps know it, and the server side that talks to one
/// (`Documentation/Protocols/Nextcloud.md`).
package enum Nextcloud {}
