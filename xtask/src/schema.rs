//! `cargo xtask schema`: upstream's own words about its protocol, kept in `schema/`, and the Rust that follows from them.
//! A real binary is asked twice, with and without its experimental part; the answers are trimmed so that
//! the same binary always gives the same bytes. `--check` compares instead of writing.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};

use crate::codex::{Codex, committed_version};
use crate::difference;
use crate::workspace;

mod beyond;
mod bundle;
mod generate;
mod history;
mod methods;
mod trim;

pub(crate) use generate::{GeneratedFile, PLACE};
pub(crate) use history::History;
pub(crate) use methods::{Method, MethodTable};
pub(crate) use trim::{pretty, trimmed};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Ask this native binary
    #[arg(long, value_name = "PATH", conflicts_with = "version")]
    codex: Option<PathBuf>,
    /// Ask this published version, installed by npm below target/ [default: the one in schema/VERSION]
    #[arg(long, value_name = "X.Y.Z")]
    version: Option<String>,
    /// Write nothing; fail if `schema/` is not what the binary says, or the generated Rust not what follows from it
    #[arg(long)]
    check: bool,
    /// Ask no binary: only generate the Rust anew from `schema/` as it is
    #[arg(long, conflicts_with_all = ["codex", "version", "check", "history"])]
    generate: bool,
    /// Ask all tested older versions, installed by npm below target/, which methods they have
    #[arg(long, conflicts_with_all = ["codex", "version", "check"])]
    history: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    if arguments.generate {
        return write_generated();
    }
    if arguments.history {
        history::write()?;
        return write_generated();
    }
    let codex = match (&arguments.codex, &arguments.version) {
        (Some(path), _) => Codex::at(path)?,
        (None, Some(version)) => Codex::published(version)?,
        (None, None) => Codex::published(&committed_version()?)?,
    };
    if arguments.check { check(&codex) } else { write(&codex) }
}

/// Fails with the first differences between `schema/` and what the binary says.
pub(crate) fn check(codex: &Codex) -> Result<()> {
    let mut differences = String::new();
    for file in files_of(codex)? {
        let committed = fs::read_to_string(file.path()).unwrap_or_default();
        if let Some(difference) = difference::between(&committed, &file.text) {
            differences += &format!("\nschema/{}:\n{difference}", file.name);
        }
    }
    if !differences.is_empty() {
        let version = &codex.version;
        bail!("schema/ is not what codex {version} says; `cargo xtask schema` rewrites it{differences}");
    }
    check_generated()?;
    println!("schema/ is what codex {} says, and the generated Rust what follows from it", codex.version);
    Ok(())
}

fn check_generated() -> Result<()> {
    let root = workspace::root();
    for file in generated(|path| Ok(fs::read_to_string(root.join(path))?))? {
        let committed = fs::read_to_string(root.join(&file.path)).unwrap_or_default();
        if let Some(difference) = difference::between(&committed, &file.text) {
            bail!("{} does not follow from schema/; `cargo xtask schema` rewrites it\n{difference}", file.path);
        }
    }
    Ok(())
}

/// The Rust that follows from the files of `schema/`, which `text_of` reads.
pub(crate) fn generated(text_of: impl Fn(&str) -> Result<String>) -> Result<Vec<GeneratedFile>> {
    let bundle = serde_json::from_str(&text_of("schema/app-server.json")?).context("schema/app-server.json")?;
    let table = serde_json::from_str(&text_of("schema/methods.json")?).context("schema/methods.json")?;
    let history = History::read(&text_of("schema/history.json")?).context("schema/history.json")?;
    generate::files(&bundle, &table, &history)
}

fn write_generated() -> Result<()> {
    let root = workspace::root();
    let files = generated(|path| fs::read_to_string(root.join(path)).with_context(|| format!("cannot read {path}")))?;
    // What is no longer generated must not stay behind.
    if root.join(PLACE).exists() {
        fs::remove_dir_all(root.join(PLACE))?;
    }
    fs::create_dir_all(root.join(PLACE))?;
    for file in &files {
        fs::write(root.join(&file.path), &file.text).with_context(|| format!("cannot write {}", file.path))?;
    }
    let lines: usize = files.iter().map(|file| file.text.lines().count()).sum();
    println!("{PLACE}/ written, {} files, {lines} lines", files.len());
    Ok(())
}

fn write(codex: &Codex) -> Result<()> {
    fs::create_dir_all(workspace::root().join("schema"))?;
    for file in files_of(codex)? {
        fs::write(file.path(), &file.text).with_context(|| format!("cannot write schema/{}", file.name))?;
        println!("schema/{} written, {} bytes", file.name, file.text.len());
    }
    write_generated()
}

/// One file of `schema/`.
struct SchemaFile {
    name: &'static str,
    text: String,
}

impl SchemaFile {
    fn path(&self) -> PathBuf {
        workspace::root().join("schema").join(self.name)
    }
}

fn files_of(codex: &Codex) -> Result<[SchemaFile; 3]> {
    let whole = bundle::ask(&codex.binary, bundle::Extent::Experimental)?;
    let stable = bundle::ask(&codex.binary, bundle::Extent::Stable)?;
    let table = MethodTable::compared(&whole, &stable)?;
    beyond::check(&codex.binary, &table)?;
    Ok([
        SchemaFile { name: "VERSION", text: format!("{}\n", codex.version) },
        SchemaFile { name: "app-server.json", text: pretty(&trimmed(whole)) },
        SchemaFile { name: "methods.json", text: table.to_text() },
    ])
}
