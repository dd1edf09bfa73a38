//! What the components within a component instantiate in total.
//!
//! A few bytes instantiate a nested component, and the compiler makes all of its contents anew each
//! time: ten levels of ten instances each are ten thousand million. So each component is weighed by
//! what one instance of it makes, including all instances within.

use super::{at_most, malformed};
use crate::guest::engine::CORE_INSTANCES_PER_GUEST_MAX;
use crate::guest::problem::LoadError;
use wasmparser::{
    CanonicalFunction, CanonicalOption, ComponentAlias, ComponentExternalKind, ComponentInstance,
    ComponentOuterAliasKind, ComponentTypeRef, Instance, Payload,
};

/// Nested components. Python guests have 2, and each composition of two components adds 1 or 2.
const COMPONENTS_MAX: u64 = 256;

/// Depth of nesting: validating takes more than linear memory in it. Composition adds 1.
const DEPTH_MAX: u64 = 32;

/// Items of all components, and items that an instance makes. Estimated: Python guests have 1,500
/// of them.
const ITEMS_MAX: u64 = 100_000;

const ITEMS: &str =
    "types, imports, exports, aliases and instances, each counted as often as its component is instantiated";

/// The components being read, from the outermost on.
pub(super) struct Tree {
    open: Vec<Level>,
    components: u64,
    /// Items of all components, instantiated or not.
    items: u64,
    /// Whether any of them passes text in UTF-16.
    transcodes: bool,
}

#[derive(Default)]
struct Level {
    /// What one instance of it makes.
    weight: Weight,
    /// What one instance makes of each component that it can name; `None` if these bytes do not
    /// say.
    components: Vec<Option<Weight>>,
}

#[derive(Clone, Copy, Default)]
struct Weight {
    core_instances: u64,
    items: u64,
}

impl Default for Tree {
    fn default() -> Self {
        Self { open: vec![Level::default()], components: 0, items: 0, transcodes: false }
    }
}

impl Tree {
    /// Whether text is passed in UTF-16 anywhere.
    pub(super) fn transcodes(&self) -> bool {
        self.transcodes
    }

    /// Whether what comes next belongs to the outermost component.
    pub(super) fn is_at_root(&self) -> bool {
        self.open.len() == 1
    }

    /// Core instances that an instance of the outermost component makes.
    pub(super) fn core_instances(&self) -> u64 {
        self.open.first().map_or(0, |root| root.weight.core_instances)
    }

    /// Reads a part of a component other than a core module.
    pub(super) fn payload(&mut self, payload: &Payload<'_>) -> Result<(), LoadError> {
        match payload {
            Payload::ComponentSection { .. } => {
                self.components += 1;
                at_most("nested components", self.components, COMPONENTS_MAX)?;
                at_most("levels of nested components", self.open.len() as u64, DEPTH_MAX)?;
                self.open.push(Level::default());
            }
            Payload::End(_) if !self.is_at_root() => {
                let ended = self.open.pop().map(|level| level.weight);
                self.level().components.push(ended);
            }
            Payload::InstanceSection(section) => {
                for instance in section.clone() {
                    if let Instance::Instantiate { .. } = instance.map_err(malformed)? {
                        self.level().weight.core_instances += 1;
                    }
                }
                self.add(section.count())?;
                self.check_core_instances()?;
            }
            Payload::ComponentInstanceSection(section) => {
                for instance in section.clone() {
                    if let ComponentInstance::Instantiate { component_index, .. } = instance.map_err(malformed)? {
                        self.instantiate(component_index)?;
                    }
                }
                self.add(section.count())?;
            }
            Payload::ComponentAliasSection(section) => {
                for alias in section.clone() {
                    self.alias(&alias.map_err(malformed)?);
                }
                self.add(section.count())?;
            }
            Payload::ComponentImportSection(section) => {
                for import in section.clone() {
                    if let ComponentTypeRef::Component(_) = import.map_err(malformed)?.ty {
                        self.level().components.push(None);
                    }
                }
                self.add(section.count())?;
            }
            Payload::ComponentExportSection(section) => {
                for export in section.clone() {
                    let export = export.map_err(malformed)?;
                    // An export also defines a new index for what it exports.
                    if export.kind == ComponentExternalKind::Component {
                        let exported = self.component(0, export.index);
                        self.level().components.push(exported);
                    }
                }
                self.add(section.count())?;
            }
            Payload::ComponentTypeSection(section) => self.add(section.count())?,
            Payload::ComponentCanonicalSection(section) => {
                // The bound comes first, so that too many are not read one by one.
                self.add(section.count())?;
                for function in section.clone() {
                    self.transcodes |= is_utf16(&function.map_err(malformed)?);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn level(&mut self) -> &mut Level {
        self.open.last_mut().expect("invariant: the outermost component is never closed")
    }

    fn add(&mut self, items: u32) -> Result<(), LoadError> {
        let items = u64::from(items);
        self.items += items;
        let weight = &mut self.level().weight;
        weight.items = weight.items.saturating_add(items);
        let most = weight.items.max(self.items);
        at_most(ITEMS, most, ITEMS_MAX)
    }

    /// The weight of a component, `outward` levels up.
    fn component(&self, outward: u32, index: u32) -> Option<Weight> {
        let level = self.open.iter().rev().nth(outward as usize)?;
        *level.components.get(index as usize)?
    }

    fn alias(&mut self, alias: &ComponentAlias<'_>) {
        let aliased = match alias {
            ComponentAlias::Outer { kind: ComponentOuterAliasKind::Component, count, index } => {
                self.component(*count, *index)
            }
            ComponentAlias::InstanceExport { kind: ComponentExternalKind::Component, .. } => None,
            _ => return,
        };
        self.level().components.push(aliased);
    }

    fn instantiate(&mut self, index: u32) -> Result<(), LoadError> {
        let made = self.component(0, index).ok_or(LoadError::Unweighed)?;
        let weight = &mut self.level().weight;
        weight.core_instances = weight.core_instances.saturating_add(made.core_instances);
        weight.items = weight.items.saturating_add(made.items);
        self.check_core_instances()
    }

    fn check_core_instances(&self) -> Result<(), LoadError> {
        at_most("core instances", self.core_instances(), CORE_INSTANCES_PER_GUEST_MAX.into())
    }
}

/// Whether texts passed through this function are, or may be, in UTF-16.
fn is_utf16(function: &CanonicalFunction) -> bool {
    let (CanonicalFunction::Lift { options, .. } | CanonicalFunction::Lower { options, .. }) = function else {
        return false;
    };
    options.iter().any(|option| matches!(option, CanonicalOption::UTF16 | CanonicalOption::CompactUTF16))
}
