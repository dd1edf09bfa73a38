//! Components that take the compiler long, within all bounds that are checked before it starts.

#![allow(dead_code)] // Each of those who share it needs a part.

/// A number as WebAssembly encodes it.
fn leb(mut number: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let low = (number & 0x7f) as u8;
        number >>= 7;
        if number == 0 {
            bytes.push(low);
            return bytes;
        }
        bytes.push(low | 0x80);
    }
}

/// A section of a module or a component.
pub(crate) fn section(id: u8, content: &[u8]) -> Vec<u8> {
    [&[id][..], &leb(content.len()), content].concat()
}

/// A component that fits by the names of its exports, and has one core module. These are the bodies
/// of its functions, which have the type `(param i32)`, without their locals and ends.
pub(crate) fn of_bodies(bodies: &[Vec<u8>]) -> Vec<u8> {
    let name = b"wfhost:process/guest@0.1.0";
    // An instance of nothing, exported by that name.
    let instance = section(5, &[1, 1, 0]);
    let export = section(11, &[&[1, 0, name.len() as u8][..], name, &[5, 0, 0]].concat());
    [unnamed(bodies), instance, export].concat()
}

/// The same without any export.
fn unnamed(bodies: &[Vec<u8>]) -> Vec<u8> {
    let mut types = leb(bodies.len());
    types.resize(types.len() + bodies.len(), 0);
    let mut code = leb(bodies.len());
    for body in bodies {
        code.extend(leb(body.len() + 2));
        code.push(0);
        code.extend(body);
        code.push(0x0b);
    }
    let module =
        [&b"\0asm\x01\0\0\0"[..], &section(1, &[1, 0x60, 1, 0x7f, 0]), &section(3, &types), &section(10, &code)]
            .concat();
    [&b"\0asm\x0d\0\x01\0"[..], &section(1, &module)].concat()
}

/// This many branches to one place: the compiler's time grows with their square.
pub(crate) fn branches(count: usize) -> Vec<u8> {
    [&[0x02, 0x40][..], &[0x20, 0, 0x0d, 0].repeat(count), &[0x0b]].concat()
}

/// A function of this many bytes.
pub(crate) fn additions(bytes: usize) -> Vec<u8> {
    [&[0x20, 0][..], &[0x41, 1, 0x6a].repeat(bytes / 3), &[0x1a]].concat()
}

/// One that takes minutes: 80 KB for each 5 s.
pub(crate) fn component() -> Vec<u8> {
    of_bodies(&vec![branches(20_000); 9])
}

/// The same, but large enough that its compilation is announced: the rest is a section without
/// meaning.
pub(crate) fn large() -> Vec<u8> {
    [component(), section(0, &[&[1, b'x'][..], &vec![0; 1 << 20]].concat())].concat()
}

/// One that would take minutes, and does not fit: it exports nothing.
pub(crate) fn misfit() -> Vec<u8> {
    unnamed(&vec![branches(20_000); 9])
}
