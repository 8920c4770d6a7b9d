//! The inputs that a fuzzer found interesting, one file each: a test plays them to the same function as the fuzzer does.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};

/// What a committed corpus may have: it is replayed by every run of the tests, and read by nobody.
const INPUTS_MAX: usize = 100;
const BYTES_MAX: usize = 200_000;

/// Calls `check` with each input of `fuzz/corpus/TARGET`, in the order of their names.
///
/// # Panics
/// If there is none, if there are too many, or if `check` does: the name of the input is printed then.
pub fn replay(target: &str, check: impl Fn(&[u8])) {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let entries = fs::read_dir(&directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    assert!(!files.is_empty(), "{} is empty", directory.display());
    assert!(files.len() <= INPUTS_MAX, "{} inputs in {}", files.len(), directory.display());
    files.sort_unstable();
    let mut bytes = 0;
    for file in files {
        let input = fs::read(&file).expect("a file");
        bytes += input.len();
        assert!(bytes <= BYTES_MAX, "{} has more than {BYTES_MAX} bytes", directory.display());
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| check(&input))) {
            #[expect(clippy::print_stderr, reason = "the panic itself does not name the input")]
            {
                eprintln!("the input was fuzz/corpus/{target}/{}", file.file_name().unwrap_or_default().display());
            }
            resume_unwind(panic);
        }
    }
}
