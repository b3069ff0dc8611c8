//! Brings the schema up to date before anything is served (I17).

use std::fs::{DirBuilder, OpenOptions, Permissions};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use sqlx::migrate::{MigrateError, Migrator};
use sqlx::{ConnectOptions as _, Connection as _};

use crate::{Error, Result, Settings, options};

static MIGRATIONS: Migrator = sqlx::migrate!("../../migrations/sqlite");

/// Copies a database that has migrations to come, then runs them.
pub(crate) async fn run(settings: &Settings) -> Result<()> {
    let existed = settings.path.exists();
    make_private(&settings.path).map_err(|error| Error::Unavailable(error.to_string()))?;
    let mut connection = options(&settings.path).connect().await?;
    if existed && has_pending(&mut connection).await? {
        back_up(settings, &mut connection).await?;
    }
    MIGRATIONS
        .run_direct(None, &mut connection, false)
        .await
        .map_err(to_error)?;
    connection.close().await?;
    Ok(())
}

/// The database is its owner's alone; the files that SQLite puts beside it get the same mode.
fn make_private(path: &Path) -> std::io::Result<()> {
    let file = OpenOptions::new().create(true).append(true).mode(0o600).open(path)?;
    file.set_permissions(Permissions::from_mode(0o600))
}

/// Whether the newest migration that this program knows is the newest that was run.
pub(crate) async fn is_current(readers: &sqlx::SqlitePool) -> Result<bool> {
    let applied: Option<i64> = sqlx::query_scalar("SELECT max(version) FROM _sqlx_migrations")
        .fetch_one(readers)
        .await?;
    Ok(applied == newest())
}

fn newest() -> Option<i64> {
    MIGRATIONS.iter().map(|migration| migration.version).max()
}

async fn has_pending(connection: &mut sqlx::SqliteConnection) -> Result<bool> {
    let has_table: i64 = sqlx::query_scalar("SELECT count(*) FROM sqlite_master WHERE name = '_sqlx_migrations'")
        .fetch_one(&mut *connection)
        .await?;
    if has_table == 0 {
        return Ok(false);
    }
    let applied: Option<i64> = sqlx::query_scalar("SELECT max(version) FROM _sqlx_migrations")
        .fetch_one(&mut *connection)
        .await?;
    Ok(applied.is_some() && applied < newest())
}

async fn back_up(settings: &Settings, connection: &mut sqlx::SqliteConnection) -> Result<()> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(&settings.backups);
    made.map_err(|error| Error::Unavailable(error.to_string()))?;
    let version: i64 = sqlx::query_scalar("SELECT max(version) FROM _sqlx_migrations")
        .fetch_one(&mut *connection)
        .await?;
    let copy = settings.backups.join(format!("before-migration-after-{version}.db"));
    if copy.exists() {
        return Ok(());
    }
    sqlx::query("VACUUM INTO ?")
        .bind(copy.to_string_lossy())
        .execute(connection)
        .await?;
    make_private(&copy).map_err(|error| Error::Unavailable(error.to_string()))?;
    tracing::info!("copied the database to {} before migrating it", copy.display());
    Ok(())
}

fn to_error(error: MigrateError) -> Error {
    match error {
        MigrateError::VersionMissing(_) => Error::Newer,
        other => Error::Unavailable(other.to_string()),
    }
}
