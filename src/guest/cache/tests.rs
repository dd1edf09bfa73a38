use super::*;
use std::fs;
use std::os::unix::fs::PermissionsExt;

const COMPONENT: &str = r#"(component (core module $m (func (export "f"))) (core instance $i (instantiate $m))
    (func (export "f") (canon lift (core func $i "f"))))"#;

fn load(cache: &CodeCache) -> Vec<u8> {
    let bytes = wat::parse_str(COMPONENT).unwrap();
    let engine = Engine::default();
    let (_, note) =
        cache.load_or_compile(&engine, &bytes, &blake3::hash(&bytes), || Ok(b"a note".to_vec().into())).unwrap();
    note
}

fn the_file(dir: &std::path::Path) -> PathBuf {
    let mut files: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(files.len(), 1);
    files.pop().unwrap()
}

#[test]
fn the_second_load_finds_the_code_and_its_note() {
    let dir = tempfile::tempdir().unwrap();
    let cache = CodeCache::new(Some(dir.path().join("code")), 1 << 30);
    assert_eq!(load(&cache), b"a note");
    assert_eq!(load(&cache), b"a note");
    assert_eq!(cache.usage(), CacheUse { hits: 1, misses: 1, damaged: 0 });
    assert_eq!(fs::metadata(dir.path().join("code")).unwrap().permissions().mode() & 0o777, 0o700);
    assert_eq!(fs::metadata(the_file(&dir.path().join("code"))).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn a_damaged_file_is_compiled_anew_and_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let cache = CodeCache::new(Some(dir.path().into()), 1 << 30);
    load(&cache);
    let file = the_file(dir.path());
    let mut bytes = fs::read(&file).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    fs::write(&file, &bytes).unwrap();
    load(&cache);
    assert_eq!(cache.usage(), CacheUse { hits: 0, misses: 2, damaged: 1 });
    load(&cache);
    assert_eq!(cache.usage(), CacheUse { hits: 1, misses: 2, damaged: 1 });
}

#[test]
fn a_folder_that_others_can_write_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let open = dir.path().join("open");
    fs::create_dir(&open).unwrap();
    fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
    let cache = CodeCache::new(Some(open.clone()), 1 << 30);
    assert!(cache.dir().unwrap_err().contains("can be written by others"));
    // It compiles all the same, and stores nothing.
    load(&cache);
    assert_eq!(fs::read_dir(&open).unwrap().count(), 0);

    let below = CodeCache::new(Some(open.join("below")), 1 << 30);
    assert!(below.dir().unwrap_err().contains("could replace what is in it"));
}

#[test]
fn the_oldest_file_goes_when_there_is_no_room() {
    let dir = tempfile::tempdir().unwrap();
    let folder = folder::Folder::open(dir.path().into(), 25).unwrap();
    let names = ["a.wfcode", "b.wfcode", "c.wfcode"];
    for (age, name) in [30, 20, 10].into_iter().zip(names) {
        folder.write(name, &[0; 10]);
        let time = std::time::SystemTime::now() - std::time::Duration::from_secs(age);
        if let Ok(file) = fs::File::options().append(true).open(dir.path().join(name)) {
            file.set_modified(time).unwrap();
        }
    }
    assert_eq!(folder.open_file("a.wfcode").map(|_| ()), None);
    assert!(folder.open_file("b.wfcode").is_some() && folder.open_file("c.wfcode").is_some());
    folder.write("too-large.wfcode", &[0; 26]);
    assert_eq!(folder.open_file("too-large.wfcode").map(|_| ()), None);
}

/// A use updates the file's time, even if the file is read-only.
#[test]
fn a_use_makes_a_file_young_again() {
    let dir = tempfile::tempdir().unwrap();
    let folder = folder::Folder::open(dir.path().into(), 25).unwrap();
    folder.write("a.wfcode", b"code");
    let path = dir.path().join("a.wfcode");
    let modified = || fs::metadata(&path).unwrap().modified().unwrap();
    let old = std::time::SystemTime::now() - std::time::Duration::from_hours(48);
    fs::File::options().append(true).open(&path).unwrap().set_modified(old).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o400)).unwrap();
    let before = modified();
    assert!(folder.open_file("a.wfcode").is_some());
    assert!(modified() > before);
}
