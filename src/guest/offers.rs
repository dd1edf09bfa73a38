//! What is offered to guests, by name and version.

use super::{binding, wasi};

/// Whether an import of that name can be met for a component with these exports: by the same
/// interface, in a version that semantic versioning calls compatible. What script engines need is
/// offered to them alone.
pub(crate) fn is_offered_to(import: &str, exports: &[String]) -> bool {
    let for_engines = |offered: &str| binding::CONTRACTS.iter().any(|contract| contract.engine_interface() == offered);
    let is_engine =
        || binding::CONTRACTS.iter().any(|contract| exports.iter().any(|one| one == contract.script_interface()));
    let found = offered().find(|offered| is_compatible(offered, import));
    found.is_some_and(|offered| !for_engines(offered) || is_engine())
}

/// The names of everything that is offered.
pub(crate) fn offered() -> impl Iterator<Item = &'static str> {
    binding::CONTRACTS.iter().flat_map(|contract| contract.imports()).chain(wasi::INTERFACES).copied()
}

fn is_compatible(offered: &str, import: &str) -> bool {
    let (Some((offered_name, offered)), Some((name, version))) = (offered.split_once('@'), import.split_once('@'))
    else {
        return offered == import;
    };
    offered_name == name && lane(offered).is_some_and(|lane_offered| lane(version) == Some(lane_offered))
}

/// What compatible versions have in common: the major, or the minor if the major is 0.
fn lane(version: &str) -> Option<(u64, u64)> {
    let (numbers, pre_release) = version.split_once('-').map_or((version, false), |(numbers, _)| (numbers, true));
    let mut numbers = numbers.split('.').map(|number| number.parse::<u64>().ok());
    let (major, minor) = (numbers.next()??, numbers.next()??);
    if pre_release {
        return None;
    }
    Some((major, if major == 0 { minor } else { 0 }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compatible_versions_of_the_same_interface_are_offered() {
        assert!(is_offered_to("wfhost:process/host@0.1.0", &[]));
        assert!(is_offered_to("wfhost:process/types@0.1.7", &[]));
        assert!(!is_offered_to("wfhost:process/host@0.2.0", &[]));
        assert!(!is_offered_to("wfhost:process/host@1.1.0", &[]));
        assert!(!is_offered_to("wfhost:process/host", &[]));
        assert!(!is_offered_to("wfhost:process/host@0.1.0-rc.1", &[]));
        assert!(!is_offered_to("acme:process/host@0.1.0", &[]));
    }

    #[test]
    fn only_script_engines_are_told_the_fuel_left() {
        let engine = "wfhost:process/engine@0.1.0";
        assert!(!is_offered_to(engine, &["wfhost:process/guest@0.1.0".into()]));
        assert!(is_offered_to(engine, &["wfhost:process/script@0.1.0".into()]));
    }
}
