//! Reading a workflow file, and the diagnostics of one that is not text.

use super::LoadError;
use crate::workflow::diagnostics::{Diagnostic, Diagnostics};
use crate::workflow::syntax::{SOURCE_BYTES_MAX, Source, Span};
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;

/// Returns whether a file of a folder is a workflow by its name: not if it has the tests of one.
pub(crate) fn is_workflow(path: &Path) -> bool {
    let is_test = path.file_stem().is_some_and(|stem| stem.as_encoded_bytes().ends_with(b".test"));
    !is_test && path.extension().is_some_and(|kind| kind == "yaml" || kind == "yml")
}

/// Reads the text of a file. Of a file that is too large it reads as much as lets the parser refuse
/// it.
///
/// # Errors
/// Fails if the file cannot be read, or is not UTF-8.
pub(crate) fn read(path: &Path) -> Result<String, LoadError> {
    let bytes = read_bytes(path).map_err(|source| LoadError::Read { path: path.to_owned(), source })?;
    if bytes.len() > SOURCE_BYTES_MAX {
        return Ok(String::from_utf8_lossy(&bytes).into_owned());
    }
    String::from_utf8(bytes).map_err(|error| {
        LoadError::Definition(not_text(&path.to_string_lossy(), error.as_bytes(), error.utf8_error().valid_up_to()))
    })
}

/// Reads a file, at most one byte more than a workflow may have.
fn read_bytes(path: &Path) -> io::Result<Vec<u8>> {
    let kind = std::fs::metadata(path)?.file_type();
    if kind.is_dir() {
        let inside = path.join("workflow.yaml");
        let hint = if inside.is_file() { format!("; did you mean {}?", inside.display()) } else { String::new() };
        return Err(io::Error::new(io::ErrorKind::IsADirectory, format!("it is a folder, not a workflow file{hint}")));
    }
    // A named pipe may never get a writer. One without a name, which a shell makes of `<(…)`, has
    // one.
    if kind.is_fifo() && std::fs::canonicalize(path).is_ok() {
        return Err(io::Error::other("it is a named pipe, and no file; /dev/stdin can be read"));
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(SOURCE_BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Makes the diagnostic of bytes that are not UTF-8, at the first invalid one.
fn not_text(name: &str, bytes: &[u8], valid_up_to: usize) -> Diagnostics {
    let text = String::from_utf8_lossy(bytes);
    // The byte order mark is no part of a source's text.
    let mark = if text.starts_with('\u{feff}') { 3 } else { 0 };
    let source = Source::new(name, &text);
    let mut problems = Diagnostics::new(source);
    let problem = match bytes {
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => Diagnostic::new("encoding", "the file is UTF-16", Span::new(0..0)),
        _ => {
            let at = valid_up_to.saturating_sub(mark);
            let message = format!("not UTF-8: the byte 0x{:02x}", bytes.get(valid_up_to).copied().unwrap_or_default());
            Diagnostic::new("encoding", message, Span::new(at..at + '\u{fffd}'.len_utf8()))
        }
    };
    problems.push(problem.hint("save the file as UTF-8"));
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(bytes: &[u8]) -> String {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.yaml");
        std::fs::write(&path, bytes).unwrap();
        match read(&path) {
            Err(LoadError::Definition(problems)) => {
                let problem = problems.iter().next().unwrap().clone();
                let at = problems.source().position(problem.span.start);
                format!("{}:{} {}", at.line, at.column, problem.message)
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_is_not_utf_8_is_told_with_its_place() {
        assert_eq!(refusal(b"name: x\nsteps: caf\xe9\n"), "2:11 not UTF-8: the byte 0xe9");
        assert_eq!(
            refusal("\u{feff}name: ".as_bytes().iter().copied().chain([0xff]).collect::<Vec<_>>().as_slice()),
            "1:7 not UTF-8: the byte 0xff"
        );
        assert_eq!(refusal(b"\xff\xfen\0a\0"), "1:1 the file is UTF-16");
        assert_eq!(refusal(b"caf\xc3"), "1:4 not UTF-8: the byte 0xc3");
    }

    #[test]
    fn what_never_ends_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        assert!(read(&pipe).unwrap_err().to_string().contains("named pipe"));
        assert!(read(folder.path()).unwrap_err().to_string().contains("it is a folder"));
        std::fs::write(folder.path().join("workflow.yaml"), "steps: []").unwrap();
        assert!(read(folder.path()).unwrap_err().to_string().contains("did you mean"));
        assert_eq!(read(Path::new("/dev/zero")).unwrap().len(), SOURCE_BYTES_MAX + 1);
    }
}
