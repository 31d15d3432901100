import SQL

let x = PackageResources._0001_bouncer_sql
