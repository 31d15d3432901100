import SQL

let x = PackageResources._001_bouncer_sql
