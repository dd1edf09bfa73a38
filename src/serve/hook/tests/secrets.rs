//! Where secrets come from.

use crate::serve::hook::secret::SecretSource;

fn file(path: &std::path::Path) -> SecretSource {
    SecretSource::File { path: path.to_str().unwrap().to_owned() }
}

fn refused(source: &SecretSource) -> String {
    source.read().err().expect("it is refused").to_string()
}

#[test]
fn a_file_is_read_each_time_without_the_white_space_at_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("secret");
    std::fs::write(&path, "0123456789abcdef\n").unwrap();
    assert_eq!(file(&path).read().ok().unwrap().bytes(), b"0123456789abcdef");
    std::fs::write(&path, "another secret that is as good \r\n").unwrap();
    assert_eq!(file(&path).read().ok().unwrap().bytes(), b"another secret that is as good");
}

#[test]
fn what_cannot_be_a_secret_is_refused_and_never_shown() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("secret");
    assert!(refused(&file(&path)).contains("No such file"));
    std::fs::write(&path, "short and ours\n").unwrap();
    let why = refused(&file(&path));
    assert!(why.contains("at least 16 bytes, and this one has 14") && !why.contains("ours"), "{why}");
    std::fs::write(&path, vec![b'x'; 4097]).unwrap();
    assert!(refused(&file(&path)).contains("at most 4096 bytes"));
    assert!(refused(&file(folder.path())).contains("not a file"));
    assert!(refused(&file("secret".as_ref())).contains("absolute"));
    assert!(refused(&file("/dev/zero".as_ref())).contains("not a file"));
    for name in ["", "A=B", "A\0B"] {
        assert!(refused(&SecretSource::Env { name: name.into() }).contains("no variable"), "{name:?}");
    }
    assert!(refused(&SecretSource::Env { name: "WFHOST_TEST_NOT_SET".into() }).contains("not set"));
}
