//! Programs that others wrote, as `guests/toolchain/programs.sh` fetches and builds them.
//! `docs/programs.md` lists them.

use super::*;
use crate::support::guests;

const SVG: &str =
    "<svg xmlns='http://www.w3.org/2000/svg' width='8' height='8'><rect width='8' height='8' fill='red'/></svg>";

/// The first bytes of a PNG, in base64.
const PNG: &str = "iVBORw0KGgo";

/// The output of a program, if it is built.
#[track_caller]
fn run_real(name: &str, with: &Value) -> Option<Value> {
    let folder = guests("built-on-demand/programs");
    if !folder.join(name).with_extension("wasm").exists() {
        let message = format!("{name} is not built; `guests/toolchain/programs.sh {name}` builds it");
        assert!(std::env::var_os("WFHOST_GUESTS_MUST_BE_BUILT").is_none(), "{message}");
        eprintln!("SKIPPED: {message}");
        return None;
    }
    let outcome = run_in(&host(1, 4), &folder, name, with, "memory: 512MiB");
    Some(outputs(&outcome)["x"].clone())
}

#[test]
fn jaq_transforms_json() {
    let with = json!({ "args": ["-c", "[.[] | .n * 2]"], "stdin": [{ "n": 1 }, { "n": 21 }], "parse": "json" });
    let Some(output) = run_real("jaq", &with) else { return };
    assert_eq!(output["stdout"], json!([2, 42]));
}

#[test]
fn comrak_renders_markdown() {
    let with = json!({ "args": ["in.md"], "files": { "in.md": "# Title\n\n*x*\n" } });
    let Some(output) = run_real("comrak", &with) else { return };
    assert_eq!(output["stdout"], "<h1>Title</h1>\n<p><em>x</em></p>\n");
}

#[test]
fn ripgrep_searches_folders_and_tells_by_its_code_whether_it_found() {
    let files = json!({ "a.txt": "hay\nneedle\n", "b/c.txt": "needles", "b/d.txt": "hay" });
    let with = |word: &str| json!({ "args": ["-n", "--sort", "path", word, "/"], "files": files, "parse": "lines", "expect": [0, 1] });
    let Some(output) = run_real("rg", &with("needle")) else { return };
    assert_eq!(output["stdout"], json!(["/a.txt:2:needle", "/b/c.txt:1:needles"]));
    let none = run_real("rg", &with("nothing")).unwrap();
    assert_eq!((&none["stdout"], &none["code"]), (&json!([]), &json!(1)));
}

#[test]
fn gofmt_formats_go() {
    let with = json!({ "stdin": "package  main\nfunc  main( ) { println( 1 ) }\n" });
    let Some(output) = run_real("gofmt", &with) else { return };
    assert_eq!(output["stdout"], "package main\n\nfunc main() { println(1) }\n");
}

#[test]
fn boolector_solves_a_formula() {
    let formula = "(set-logic QF_BV)\n(declare-fun x () (_ BitVec 8))\n(assert (= (bvmul x #x03) #x0f))\n(check-sat)\n";
    let with = json!({ "args": ["--smt2", "-m", "in.smt2"], "files": { "in.smt2": formula }, "expect": [10] });
    let Some(output) = run_real("boolector", &with) else { return };
    let text = output["stdout"].as_str().unwrap();
    assert!(text.starts_with("sat") && text.contains("#b00000101"), "{text}");
}

#[test]
fn resvg_draws_an_image() {
    let with = json!({ "args": ["in.svg", "out.png"], "files": { "in.svg": SVG } });
    let Some(output) = run_real("resvg", &with) else { return };
    assert!(output["files"]["out.png"]["bytes"].as_str().unwrap().starts_with(PNG), "{output}");
}

#[test]
fn usvg_simplifies_an_image() {
    let Some(output) = run_real("usvg", &json!({ "args": ["-", "-c"], "stdin": SVG })) else { return };
    assert!(output["stdout"].as_str().unwrap().contains("fill=\"#ff0000\""), "{output}");
}

#[test]
fn flite_speaks() {
    let Some(output) = run_real("flite", &json!({ "args": ["-t", "good morning", "-o", "out.wav"] })) else { return };
    // `RIFF` in base64.
    assert!(output["files"]["out.wav"]["bytes"].as_str().unwrap().starts_with("UklGR"));
}

#[test]
fn htmlq_selects_in_html() {
    let with = json!({ "args": ["--text", "p.b"], "stdin": "<p>a</p><p class=b>found</p>" });
    let Some(output) = run_real("htmlq", &with) else { return };
    assert_eq!(output["stdout"].as_str().unwrap().trim(), "found");
}

#[test]
fn zstd_packs_and_unpacks() {
    let text = "a text ".repeat(100);
    let pack = json!({ "args": ["-q", "in.txt", "-o", "out.zst"], "files": { "in.txt": text } });
    let Some(packed) = run_real("zstd", &pack) else { return };
    let packed = &packed["files"]["out.zst"];
    // The magic number in base64.
    assert!(packed["bytes"].as_str().unwrap().starts_with("KLUv/"), "{packed}");
    let unpacked = run_real("zstd", &json!({ "args": ["-d", "-c"], "stdin": packed })).unwrap();
    assert_eq!(unpacked["stdout"], text);
}

/// It has exceptions of C++, and more than 64 MiB with the names of its functions.
#[test]
fn yosys_synthesizes() {
    let verilog = "module top(input [3:0] a, b, output [4:0] s); assign s = a + b; endmodule\n";
    let script = "read_verilog top.v; prep -top top; write_json out.json";
    let files = json!({ "top.v": verilog });
    let Some(output) = run_real("yosys", &json!({ "args": ["-q", "-p", script], "files": files })) else { return };
    let made: Value = serde_json::from_str(output["files"]["out.json"].as_str().unwrap()).unwrap();
    assert_eq!(made["modules"]["top"]["ports"]["s"]["bits"].as_array().unwrap().len(), 5, "{made}");
}

#[test]
fn python_runs_with_its_library_and_leaves_files() {
    let main = "import sys, json, collections\n\
        words = collections.Counter(sys.stdin.read().split())\n\
        print(json.dumps({'n': int(sys.argv[1]) * 2, 'words': words}))\n\
        open('out.txt', 'w').write('made')\n";
    let with = json!({
        "args": ["main.py", "3"], "files": { "main.py": main }, "stdin": "a b a", "parse": "json", "outputs": ["out.txt"]
    });
    let Some(output) = run_real("python", &with) else { return };
    assert_eq!(output["stdout"], json!({ "n": 6, "words": { "a": 2, "b": 1 } }));
    assert_eq!(output["files"], json!({ "out.txt": "made" }));
}
