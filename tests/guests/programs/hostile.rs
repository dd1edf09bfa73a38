//! Programs that do harm with what they are given: each ends with the problem of the bound that it
//! meets, or goes on with an error of its own.

use super::*;

/// Errors of WASI preview 1.
const EINVAL: i32 = 28;
const ENAMETOOLONG: i32 = 37;
const ENOSPC: i32 = 51;
const ENOTSUP: i32 = 58;
const EPERM: i32 = 63;
const EFBIG: i32 = 22;

fn ends(data: &str, body: &str, limits: &str) -> Outcome {
    let with = json!({ "expect": (0..256).collect::<Vec<_>>(), "outputs": [] });
    run_text(&host(1, 4), &program(data, body), &with, limits)
}

/// The code with which it exits: that of the error that it met.
#[track_caller]
fn code(data: &str, body: &str) -> i32 {
    outputs(&ends(data, body, ""))["x"]["code"].as_i64().unwrap() as i32
}

/// Opens the file `a` for reading and writing, as the descriptor at 32.
const OPEN: &str = "
    (local.set $r (call $path_open (i32.const 3) (i32.const 0) (i32.const 1024) (i32.const 1) (i32.const 1)
        (i64.const 4194370) (i64.const 0) (i32.const 0) (i32.const 32)))
    (if (local.get $r) (then (call $proc_exit (local.get $r))))";

#[test]
fn a_flood_of_output_ends_with_the_bound_that_it_meets() {
    for (print, name) in [("$print", "standard output"), ("$complain", "standard error")] {
        let flood = format!("(loop (call {print} (i32.const 1024) (i32.const 65536)) (br 0))");
        let problem = cause(&ends("", &flood, "payload: 2MiB"));
        assert_eq!(problem["kind"], "too-large", "{problem}");
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains("more than 2097152 bytes") && detail.contains(name), "{detail}");
    }
}

#[test]
fn a_file_is_no_larger_than_the_quota() {
    let set = |size: &str| {
        format!("{OPEN} (call $proc_exit (call $fd_filestat_set_size (i32.load (i32.const 32)) (i64.const {size})))")
    };
    assert_eq!(code("a", &set("1048576")), 0);
    assert_eq!(code("a", &set("99999999999")), ENOSPC);
    let beyond = |at: &str| {
        format!(
            "{OPEN} (i32.store (i32.const 16) (i32.const 1024)) (i32.store (i32.const 20) (i32.const 1))
            (call $proc_exit (call $fd_pwrite (i32.load (i32.const 32)) (i32.const 16) (i32.const 1)
                (i64.const {at}) (i32.const 24)))"
        )
    };
    assert_eq!(code("a", &beyond("68719476736")), ENOSPC);
    assert_eq!(code("a", &beyond("-1")), EFBIG);
}

/// Zeros that a file gets take time, so they take fuel: a file that grows and shrinks without end
/// uses it up.
#[test]
fn a_file_that_grows_and_shrinks_without_end_uses_up_its_fuel() {
    let body = format!(
        "{OPEN} (loop
            (drop (call $fd_filestat_set_size (i32.load (i32.const 32)) (i64.const 60000000)))
            (drop (call $fd_filestat_set_size (i32.load (i32.const 32)) (i64.const 0)))
            (local.set $i (i32.add (local.get $i) (i32.const 1)))
            (br_if 0 (i32.lt_u (local.get $i) (i32.const 1000))))"
    );
    assert_eq!(cause(&ends("a", &body, "fuel: 1G"))["kind"], "fuel-exhausted");
}

/// Makes files with names of two characters until that fails, and exits with the error.
#[test]
fn there_are_no_more_files_than_the_quota() {
    let body = "(loop
        (i32.store8 (i32.const 1024) (i32.add (i32.const 33) (i32.rem_u (local.get $i) (i32.const 90))))
        (i32.store8 (i32.const 1025)
            (i32.add (i32.const 33) (i32.rem_u (i32.div_u (local.get $i) (i32.const 90)) (i32.const 90))))
        (i32.store8 (i32.const 1026) (i32.add (i32.const 97) (i32.div_u (local.get $i) (i32.const 8100))))
        (local.set $i (i32.add (local.get $i) (i32.const 1)))
        (local.set $r (call $path_create_directory (i32.const 3) (i32.const 1024) (i32.const 3)))
        (br_if 0 (i32.or (i32.eqz (local.get $r)) (i32.eq (local.get $r) (i32.const 20))))
        (br_if 0 (i32.eq (local.get $r) (i32.const 63)))
        (br_if 0 (i32.eq (local.get $r) (i32.const 44))))
        (call $proc_exit (local.get $r))";
    assert_eq!(code("aaa", body), ENOSPC);
}

/// Makes `a`, then `a/a`, and so on, until that fails.
#[test]
fn folders_are_no_deeper_than_the_bound() {
    let names = "a/".repeat(200);
    let body = "(loop
        (local.set $r (call $path_create_directory (i32.const 3) (i32.const 1024)
            (i32.add (i32.const 1) (i32.shl (local.get $i) (i32.const 1)))))
        (local.set $i (i32.add (local.get $i) (i32.const 1)))
        (br_if 0 (i32.and (i32.eqz (local.get $r)) (i32.lt_u (local.get $i) (i32.const 200)))))
        (call $proc_exit (local.get $r))";
    assert_eq!(code(&names, body), ENAMETOOLONG);
}

#[test]
fn a_folder_is_not_moved_into_itself() {
    let body = "
        (drop (call $path_create_directory (i32.const 3) (i32.const 1024) (i32.const 1)))
        (call $proc_exit (call $path_rename (i32.const 3) (i32.const 1024) (i32.const 1)
            (i32.const 3) (i32.const 1024) (i32.const 3)))";
    assert_eq!(code("a/b", body), EINVAL);
}

#[test]
fn no_path_leads_out_and_there_are_no_links() {
    let open = |length: usize| {
        format!(
            "(call $proc_exit (call $path_open (i32.const 3) (i32.const 1) (i32.const 1024) (i32.const {length})
                (i32.const 0) (i64.const 2) (i64.const 0) (i32.const 0) (i32.const 32)))"
        )
    };
    assert_eq!(code("../../../etc/passwd", &open(19)), EPERM);
    assert_eq!(code("/etc/passwd", &open(11)), EPERM);
    let link = "(call $proc_exit (call $path_symlink (i32.const 1024) (i32.const 4) (i32.const 3)
        (i32.const 1029) (i32.const 1)))";
    assert_eq!(code("/etc a", link), ENOTSUP);
}

/// A folder is listed from a cookie on, while it changes: the listing ends.
#[test]
fn a_folder_that_changes_while_it_is_listed_is_listed_to_an_end() {
    let body = format!(
        "{OPEN} (loop
            (drop (call $fd_readdir (i32.const 3) (i32.const 4096) (i32.const 64) (i64.extend_i32_u (local.get $i))
                (i32.const 40)))
            (drop (call $path_unlink_file (i32.const 3) (i32.const 1024) (i32.const 1)))
            (local.set $i (i32.add (local.get $i) (i32.const 1)))
            (br_if 0 (i32.lt_u (local.get $i) (i32.const 100))))
        (call $proc_exit (i32.const 0))"
    );
    assert_eq!(code("a", &body), 0);
}

/// Handles that are never closed are bounded, by the adapter or by the host.
#[test]
fn handles_that_leak_end_in_an_error_or_a_trap() {
    let body = format!("(loop {OPEN} (br 0))");
    let outcome = ends("a", &body, "");
    match &outcome.result {
        Ok(_) => assert_ne!(outputs(&outcome)["x"]["code"], 0),
        Err(_) => assert_eq!(cause(&outcome)["kind"], "trap"),
    }
}

/// Waiting for the clock takes no time: the clock of a program goes on by itself.
#[test]
fn a_wait_of_a_year_ends_at_once() {
    // One subscription to the monotonic clock.
    let body = "
        (i32.store8 (i32.const 56) (i32.const 0)) (i32.store (i32.const 64) (i32.const 1))
        (i64.store (i32.const 72) (i64.const 31536000000000000))
        (call $proc_exit (call $poll_oneoff (i32.const 48) (i32.const 128) (i32.const 1) (i32.const 200)))";
    assert_eq!(code("", body), 0);
}

#[test]
fn a_large_environment_is_given_up_to_its_bound_and_refused_beyond() {
    let body = "
        (drop (call $environ_sizes_get (i32.const 16) (i32.const 20)))
        (drop (call $environ_get (i32.const 4096) (i32.const 65536)))
        (call $proc_exit (i32.eq (i32.load8_u (i32.const 65536)) (i32.const 78)))";
    let run = |count: usize| {
        let env: Map<String, Value> = (0..count).map(|n| (format!("NAME_{n}"), json!("x".repeat(100)))).collect();
        run_text(&host(1, 4), &program("", body), &json!({ "env": env, "expect": [1] }), "")
    };
    assert_eq!(outputs(&run(220))["x"]["code"], 1);
    let refused = cause(&run(5_000));
    assert!(
        refused["kind"] == "bad-input" && refused["detail"].as_str().unwrap().contains("at most 32768"),
        "{refused}"
    );
}
