//! `encke postgres`: the graph in PostgreSQL, where there are many nodes: its tables, and a table
//! of the application as the graph.

use std::path::PathBuf;

use anyhow::{Result, anyhow};
use clap::{Args, Subcommand};
use postgres::{
    Differences, PostgresConfig, PostgresError, PostgresStore, Source, Status, TlsMode,
};
use serde_json::json;
use tokio::runtime::Builder;

use crate::console::{say, shell_word, tell};

/// Pairs that are named where a table and the graph differ.
const SHOWN: u32 = 5;

/// The graph in PostgreSQL, for many nodes: makes its tables, and makes a table of yours the graph.
#[derive(Debug, Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
#[command(after_help = "\
Examples:
  encke postgres migrate --postgres postgresql://encke@db.example/app
  encke postgres install public.follows follower_id followee_id
  encke postgres status
  encke postgres uninstall")]
pub(crate) struct PostgresArgs {
    #[command(subcommand)]
    command: PostgresCommand,
}

#[derive(Debug, Subcommand)]
enum PostgresCommand {
    Migrate(MigrateArgs),
    Install(InstallArgs),
    Uninstall(UninstallArgs),
    Status(PostgresStatusArgs),
}

/// Where the database is.
#[derive(Debug, Args)]
pub(crate) struct DatabaseArgs {
    /// Its URL, or words as libpq takes them; what is missing comes from PGHOST, PGUSER and so on.
    ///
    /// Others on this machine can read a command line: give the password in a file, PGPASSWORD or
    /// ~/.pgpass.
    #[arg(long, value_name = "URL", default_value = "postgresql:///", hide_default_value = true)]
    #[arg(env = "ENCKE_POSTGRES", hide_env_values = true)]
    postgres: String,
    /// A file with the password and nothing else.
    #[arg(long, value_name = "FILE")]
    postgres_password_file: Option<PathBuf>,
    /// Certificates that the server's must lead to (PEM); then verify-full is meant, unless the
    /// URL's sslmode says otherwise.
    #[arg(long, value_name = "FILE")]
    postgres_root: Option<PathBuf>,
    /// The schema of Encke's tables.
    #[arg(long, value_name = "NAME", default_value = "encke")]
    postgres_schema: String,
}

/// How the database is reached.
pub(crate) fn postgres_config(
    url: &str,
    password_file: Option<PathBuf>,
    schema: &str,
    root: Option<PathBuf>,
) -> Result<PostgresConfig, PostgresError> {
    let mut config = PostgresConfig::from_url(url)?;
    config.password_file = password_file;
    schema.clone_into(&mut config.schema);
    if let Some(file) = root {
        config.root_file = Some(file);
        if config.tls == TlsMode::Prefer {
            config.tls = TlsMode::VerifyFull;
        }
    }
    Ok(config)
}

/// Makes the tables or brings them up to date; a node does it too, if its user may.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  encke postgres migrate --postgres postgresql://owner@db.example/app")]
struct MigrateArgs {
    #[command(flatten)]
    database: DatabaseArgs,
}

/// Makes a table of yours the graph: imports its rows and follows its changes from then on.
///
/// The columns are smallint, integer, bigint, uuid, text or varchar, and an index begins with both.
/// The table's writers wait until it is done. Again, it compares all rows once more.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  encke postgres install public.follows follower_id followee_id")]
struct InstallArgs {
    /// The table, with its schema.
    table: String,
    /// The column of those who follow.
    subscriber: String,
    /// The column of those who are followed.
    subscribee: String,
    #[command(flatten)]
    database: DatabaseArgs,
}

/// Takes the triggers away from your table. The graph stays as it is.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  encke postgres uninstall")]
struct UninstallArgs {
    #[command(flatten)]
    database: DatabaseArgs,
}

/// Says where the graph is, how large, which table it is, and in what the two differ.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  encke postgres status --json")]
struct PostgresStatusArgs {
    #[command(flatten)]
    database: DatabaseArgs,
    /// Print a line of JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: PostgresArgs) -> Result<()> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let done = runtime.block_on(async {
        match args.command {
            PostgresCommand::Migrate(args) => migrate(&args.database).await,
            PostgresCommand::Install(args) => install(args).await,
            PostgresCommand::Uninstall(args) => uninstall(&args.database).await,
            PostgresCommand::Status(args) => status(&args).await,
        }
    });
    done.map_err(|error| match error.downcast_ref() {
        Some(PostgresError::Away(_)) => {
            anyhow!("{error}; see that it runs, and that --postgres leads to it")
        }
        _ => error,
    })
}

impl DatabaseArgs {
    /// The configuration, also for the server.
    pub(crate) fn config(&self) -> Result<PostgresConfig, PostgresError> {
        let (password, root) = (self.postgres_password_file.clone(), self.postgres_root.clone());
        postgres_config(&self.postgres, password, &self.postgres_schema, root)
    }

    async fn connect(&self, migrate: bool) -> Result<PostgresStore, PostgresError> {
        let mut config = self.config()?;
        config.migrate = migrate;
        PostgresStore::connect(config).await
    }
}

async fn migrate(database: &DatabaseArgs) -> Result<()> {
    let status = database.connect(true).await?.status().await?;
    Ok(say(format!("the graph's tables are at version {}", status.schema_version))?)
}

async fn install(args: InstallArgs) -> Result<()> {
    let store = args.database.connect(true).await?;
    let InstallArgs { table, subscriber, subscribee, .. } = args;
    tell(format!("importing {table}; its writers wait"));
    let place = store.install(&Source { table: table.clone(), subscriber, subscribee }).await?;
    Ok(say(format!("{table} is the graph, at version {}", place.version))?)
}

async fn uninstall(database: &DatabaseArgs) -> Result<()> {
    if database.connect(false).await?.uninstall().await? {
        return Ok(say("the graph stays as it is, and is Encke's own from now on")?);
    }
    tell("no table was the graph");
    Ok(())
}

async fn status(args: &PostgresStatusArgs) -> Result<()> {
    let store = args.database.connect(false).await?;
    let status = store.status().await?;
    let Status { place, pairs, bytes, changes, .. } = status;
    let Status { schema_version, source, source_lost, triggers_off, .. } = status;
    // A user who may not compare them hears all else.
    let differences = match source {
        Some(_) => Some(store.source_differences(SHOWN).await),
        None => None,
    };
    if args.json {
        let source = source.map(|source| {
            json!({
                "table": source.table,
                "subscriber": raw(&source.subscriber),
                "subscribee": raw(&source.subscribee),
            })
        });
        let (differences, error) = match differences.transpose() {
            Ok(differences) => (differences.map(|differences| differences.total), None),
            Err(error) => (None, Some(error.to_string())),
        };
        let line = json!({
            "schema_version": schema_version,
            "lineage": place.lineage.to_string(),
            "version": place.version,
            "hash": format!("{:016x}", place.hash),
            "subscriptions_estimated": pairs,
            "bytes": bytes,
            "changes_kept": changes,
            "source": source,
            "source_lost": source_lost,
            "triggers_off": triggers_off,
            "differences": differences,
            "differences_error": error,
        });
        return Ok(say(line.to_string())?);
    }
    say(format!(
        "version {} of lineage {}, hash {:016x}",
        place.version, place.lineage, place.hash
    ))?;
    say(format!("about {pairs} subscriptions in {bytes} bytes, {changes} changes kept"))?;
    if let Some(lost) = source_lost {
        return Ok(say(format!(
            "the graph is {lost}: changes are refused until you name one again (`encke postgres \
             install TABLE A B`) or none (`encke postgres uninstall`)"
        ))?);
    }
    match source {
        Some(source) => say_source(&source, triggers_off, differences),
        None => Ok(say("the graph is Encke's own")?),
    }
}

/// Says which table is the graph, and whether the graph is what that says.
fn say_source(
    source: &Source,
    triggers_off: bool,
    differences: Option<Result<Differences, PostgresError>>,
) -> Result<()> {
    let Source { table, subscriber, subscribee } = source;
    say(format!("the graph is the table {table} ({subscriber} follows {subscribee})"))?;
    let install = format!(
        "`encke postgres install {} {} {}` makes the graph what the table says",
        shell_word(table),
        shell_word(&raw(subscriber)),
        shell_word(&raw(subscribee))
    );
    if triggers_off {
        let off = "its triggers are gone or off, so the graph does not follow its changes";
        say(format!("{off}: {install}, and switches them on"))?;
    }
    match differences {
        Some(Ok(Differences { total: 0, .. })) => say("both have the same pairs")?,
        Some(Ok(differences)) => say(format!("{differences}; {install}"))?,
        Some(Err(error)) => tell(format!("they could not be compared: {error}")),
        None => {}
    }
    Ok(())
}

/// A column as it is named to `install`: without the quotes that SQL takes.
fn raw(column: &str) -> String {
    let inner = column.strip_prefix('"').and_then(|column| column.strip_suffix('"'));
    inner.map_or_else(|| column.to_owned(), |inner| inner.replace("\"\"", "\""))
}
