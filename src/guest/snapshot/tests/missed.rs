//! Pages that differ although the kernel does not report them.

use super::rig;
use crate::guest::snapshot::image::Image;
use crate::guest::snapshot::pagemap;
use crate::guest::snapshot::state::PAGE_BYTES;
use crate::guest::snapshot::take::CROSS_CHECK_PERIOD;
use crate::guest::snapshot::{ResetError, Search, TakeError, Template};

const BYTES: usize = 64 << 10;
const PAGES: usize = BYTES / PAGE_BYTES;

/// A memory that differs from zeros but was never written, since it is part of the program's own
/// file. It is aligned to a page of any kernel.
#[repr(align(65536))]
struct Unwritten([u8; BYTES]);

static UNWRITTEN: Unwritten = Unwritten([1; BYTES]);

/// `None` if the kernel does not say which pages were written.
fn template() -> Option<Template> {
    let named = pagemap::written(&UNWRITTEN.0)?;
    assert!(named.is_empty(), "{named:?}");
    Some(rig::probe("(component)").expect("it fits"))
}

/// The number of pages found of a guest whose fresh memory is all zeros.
fn found(template: &Template, search: Search) -> Result<usize, TakeError> {
    template.diff(&UNWRITTEN.0, &Image::default(), search).map(|state| state.pages.len())
}

#[test]
fn what_the_kernel_misses_is_found_in_time_and_it_is_not_asked_again() {
    let Some(template) = template() else { return };
    let mut taken = (1..=CROSS_CHECK_PERIOD).map(|_| found(&template, Search::Auto).expect("a search"));
    assert_eq!(taken.position(|pages| pages == PAGES), Some(CROSS_CHECK_PERIOD as usize - 1));
    assert_eq!(found(&template, Search::Auto).expect("a search"), PAGES);
}

#[test]
fn what_the_kernel_misses_is_an_error_where_both_ways_are_asked_for() {
    let Some(template) = template() else { return };
    let missed = found(&template, Search::CrossCheck);
    assert!(matches!(missed, Err(TakeError::MissedPages(PAGES))), "{missed:?}");
    assert_eq!(found(&template, Search::Auto).expect("a search"), PAGES);
}

#[test]
fn where_the_kernel_once_missed_something_no_instance_is_reset() {
    if template().is_none() {
        return;
    }
    let rig = rig::Rig::new(super::lockstep::EVERYTHING);
    let mut guest = rig.guest();
    let mut reset = || rig.template.reset(&mut guest.store, &guest.handles, 1_000);
    assert!(reset().is_ok());
    let missed = rig.template.diff(&UNWRITTEN.0, &Image::default(), Search::CrossCheck);
    assert!(matches!(missed, Err(TakeError::MissedPages(PAGES))), "{missed:?}");
    assert!(matches!(reset(), Err(ResetError::Unknown)));
}
