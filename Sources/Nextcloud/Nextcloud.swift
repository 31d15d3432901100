/// The push proxy as Nextcloud's servers and apps know it, and the server side that talks to one
/// (`spec/nextcloud.md`).
public enum Nextcloud {}
