//! Where secrets come from.

use crate::serve::hook::secret::{Reach, SecretSource};
use std::path::Path;

/// What the operator's webhooks may name.
const ANYTHING: Reach<'static> = Reach { folder: None, is_trusted: true };

fn file(path: &Path) -> SecretSource {
    SecretSource::File { path: path.to_str().unwrap().to_owned() }
}

fn refused(source: &SecretSource) -> String {
    source.read(ANYTHING).err().expect("it is refused").to_string()
}

#[test]
fn a_file_is_read_each_time_without_the_white_space_at_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("secret");
    std::fs::write(&path, "0123456789abcdef\n").unwrap();
    assert_eq!(file(&path).read(ANYTHING).ok().unwrap().bytes(), b"0123456789abcdef");
    std::fs::write(&path, "another secret that is as good \r\n").unwrap();
    assert_eq!(file(&path).read(ANYTHING).ok().unwrap().bytes(), b"another secret that is as good");
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

#[test]
fn a_webhook_of_the_api_reaches_what_the_operator_has_set_aside() {
    let folder = tempfile::tempdir().unwrap();
    let (inside, outside) = (folder.path().join("secrets"), folder.path().join("outside"));
    std::fs::create_dir(&inside).unwrap();
    for path in [&outside, &inside.join("kept"), &folder.path().join("secrets-of-others")] {
        std::fs::write(path, "0123456789abcdef").unwrap();
    }
    std::os::unix::fs::symlink(&outside, inside.join("out")).unwrap();
    std::os::unix::fs::symlink("kept", inside.join("link")).unwrap();
    let of_api = Reach { folder: Some(&inside), is_trusted: false };
    let named = |path: &str| SecretSource::File { path: path.to_owned() };
    for path in ["kept", "link", "./kept", inside.join("kept").to_str().unwrap()] {
        assert!(named(path).read(of_api).is_ok(), "{path}");
    }
    for path in ["../outside", "out", "kept/../../outside", outside.to_str().unwrap(), "../secrets-of-others", "", "/"]
    {
        assert!(named(path).read(of_api).is_err(), "{path}");
    }
    // Without a folder there is no file that it may name; and the operator may name any.
    let none = Reach { folder: None, is_trusted: false };
    assert!(file(&inside.join("kept")).read(none).is_err());
    let of_operator = Reach { folder: Some(&inside), is_trusted: true };
    assert!(file(&outside).read(of_operator).is_ok() && named("kept").read(of_operator).is_ok());
    // It is there, and long enough.
    let variable = SecretSource::Env { name: "PATH".to_owned() };
    assert!(variable.read(of_operator).is_ok() && variable.read(of_api).is_err());
    let variable = SecretSource::Env { name: "WFHOST_SECRET_NOT_SET".to_owned() };
    let why = variable.read(of_api).err().unwrap().to_string();
    assert!(why.contains("not set"), "{why}");
}
