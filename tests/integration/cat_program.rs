//! A program that copies standard input to standard output: a module of preview 1.

const CAT: &str = r#"(module
  (import "wasi_snapshot_preview1" "fd_read" (func $read (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 2)
  (func (export "_start")
    (local $left i32)
    (loop $next
      (i32.store (i32.const 0) (i32.const 1024))
      (i32.store (i32.const 4) (i32.const 65536))
      (if (call $read (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 8)) (then unreachable))
      (local.set $left (i32.load (i32.const 8)))
      (if (i32.eqz (local.get $left)) (then return))
      (loop $more
        (i32.store (i32.const 4) (local.get $left))
        (if (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)) (then unreachable))
        (i32.store (i32.const 0) (i32.add (i32.load (i32.const 0)) (i32.load (i32.const 8))))
        (local.set $left (i32.sub (local.get $left) (i32.load (i32.const 8))))
        (br_if $more (local.get $left)))
      (br $next))))"#;

pub(crate) fn cat() -> Vec<u8> {
    wat::parse_str(CAT).unwrap()
}
