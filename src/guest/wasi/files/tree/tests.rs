use super::*;

fn used(root: &Folder) -> (u64, u64) {
    (root.quota.bytes.load(Relaxed), root.quota.entries.load(Relaxed))
}

#[test]
fn a_path_never_leaves_the_folder_where_it_begins() {
    let root = Folder::root();
    root.put("a/b/c.txt", b"x").unwrap();
    let inner = Arc::clone(root.get("a").unwrap().folder().unwrap());
    for (path, expected) in [
        ("..", ErrorCode::NotPermitted),
        ("b/../..", ErrorCode::NotPermitted),
        ("../a/b", ErrorCode::NotPermitted),
        ("/a", ErrorCode::NotPermitted),
        ("", ErrorCode::NoEntry),
        ("c/../b", ErrorCode::NoEntry),
        ("b/c.txt/d", ErrorCode::NotDirectory),
        ("b/c.txt/", ErrorCode::NotDirectory),
        ("b\0", ErrorCode::Invalid),
        (&"x".repeat(256), ErrorCode::NameTooLong),
        (&"x/".repeat(3_000), ErrorCode::NameTooLong),
    ] {
        let found = inner.place(path).and_then(|place| place.entry());
        assert_eq!(found.map(|entry| entry.id()).unwrap_err(), expected, "{path}");
    }
    for path in ["b/c.txt", "./b//c.txt", "b/../b/./c.txt"] {
        assert!(inner.place(path).unwrap().entry().unwrap().file().is_ok(), "{path}");
    }
    assert_eq!(inner.place(".").unwrap().entry().unwrap().id(), inner.id);
}

#[test]
fn bytes_and_entries_are_counted_and_given_back() {
    let root = Folder::root();
    root.put("a", &[1; 100]).unwrap();
    assert_eq!(used(&root), (100, 2));
    let place = root.place("a").unwrap();
    let file = Arc::clone(place.entry().unwrap().file().unwrap());
    assert_eq!(file.write(u64::MAX, b"x"), Err(ErrorCode::FileTooLarge));
    assert_eq!(file.write(BYTES_MAX, b"x"), Err(ErrorCode::InsufficientSpace));
    assert_eq!(file.resize(BYTES_MAX + 1), Err(ErrorCode::InsufficientSpace));
    file.write(200, b"x").unwrap();
    assert_eq!((file.len(), used(&root)), (201, (201, 2)));
    assert_eq!(file.read(99, 3).unwrap(), [1, 0, 0]);
    assert!(file.read(500, 3).unwrap().is_empty());
    file.resize(1).unwrap();
    // An open file without a name still counts.
    place.remove_file().unwrap();
    assert_eq!(used(&root), (1, 2));
    drop(file);
    assert_eq!(used(&root), (0, 1));
    for number in 1..ENTRIES_MAX {
        root.put(&number.to_string(), b"").unwrap();
    }
    assert_eq!(root.put("one-more", b""), Err(ErrorCode::InsufficientSpace));
}

#[test]
fn a_folder_is_never_moved_into_itself_or_too_deep() {
    let root = Folder::root();
    let at = |path: &str| root.place(path).unwrap();
    root.put("a/b/c/file", b"").unwrap();
    assert_eq!(at("a").rename(&at("a/b/x")), Err(ErrorCode::Invalid));
    assert_eq!(at("a").rename(&at("a/b/c")), Err(ErrorCode::NotEmpty));
    at("a").rename(&at("a")).unwrap();
    at("a/b").rename(&at("b")).unwrap();
    assert_eq!(at("a/b").entry().map(|entry| entry.id()).unwrap_err(), ErrorCode::NoEntry);
    root.put("f", b"old").unwrap();
    assert_eq!(at("b").rename(&at("f")), Err(ErrorCode::NotDirectory));
    assert_eq!(at("f").rename(&at("b")), Err(ErrorCode::IsDirectory));
    at("b/c/file").rename(&at("f")).unwrap();
    assert_eq!(root.files().len(), 1);

    let mut path = "deep".to_owned();
    let refused = loop {
        if let Err(refused) = at(&path).create_folder() {
            break refused;
        }
        path.push_str("/x");
    };
    assert_eq!((refused, path.matches('/').count()), (ErrorCode::NameTooLong, DEPTH_MAX - 1));
    at("b").rename(&at("a/b")).unwrap();
    assert_eq!(at("deep").rename(&at("a/b/c/deep")), Err(ErrorCode::NameTooLong));
    assert_eq!(at("deep/x").remove_folder(), Err(ErrorCode::NotEmpty));
}

#[test]
fn an_open_folder_that_was_moved_gets_no_deeper_than_others() {
    let root = Folder::root();
    let mut deepest = Arc::clone(&root);
    for _ in 0..DEPTH_MAX / 2 {
        deepest.place("x").unwrap().create_folder().unwrap();
        deepest = Arc::clone(deepest.get("x").unwrap().folder().unwrap());
    }
    root.place("open").unwrap().create_folder().unwrap();
    let open = Arc::clone(root.get("open").unwrap().folder().unwrap());
    root.place("open").unwrap().rename(&deepest.place("open").unwrap()).unwrap();
    let (mut path, mut made) = ("y".to_owned(), 0);
    while open.place(&path).unwrap().create_folder().is_ok() {
        path.push_str("/y");
        made += 1;
    }
    assert_eq!((made, root.height()), (DEPTH_MAX / 2 - 2, DEPTH_MAX));
}

#[test]
fn a_folder_that_changes_is_listed_on_from_the_last_name() {
    let root = Folder::root();
    for name in ["a", "b", "c"] {
        root.put(name, b"").unwrap();
    }
    let first = root.next(None).unwrap().0;
    root.place("b").unwrap().remove_file().unwrap();
    root.put("bb", b"").unwrap();
    let second = root.next(Some(&first)).unwrap().0;
    root.place("bb").unwrap().remove_file().unwrap();
    let third = root.next(Some(&second)).unwrap().0;
    assert_eq!((first.as_str(), second.as_str(), third.as_str()), ("a", "bb", "c"));
    assert!(root.next(Some(&third)).is_none());
}

#[test]
fn what_is_put_is_what_is_listed() {
    let root = Folder::root();
    for path in ["z", "a/b", "a/a"] {
        root.put(path, path.as_bytes()).unwrap();
    }
    let paths: Vec<String> = root.files().into_iter().map(|(path, _)| path).collect();
    assert_eq!(paths, ["a/a", "a/b", "z"]);
    for path in ["a", "a/b/c", "../x", "", ".", "a/..", "/x"] {
        assert!(root.put(path, b"").is_err(), "{path}");
    }
}
