//! Manifests: what an artifact consists of.

use super::{RegistryError, is_digest, sha256};
use serde_json::{Value, json};

/// The media type of a manifest.
pub(super) const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

/// The media type of an index of manifests.
const INDEX: &str = "application/vnd.oci.image.index.v1+json";

/// What a registry is asked for.
pub(super) const ACCEPTED: &str = "application/vnd.oci.image.manifest.v1+json, application/vnd.oci.image.index.v1+json";

/// The media type of the configuration, by the CNCF's layout.
const CONFIG: &str = "application/vnd.wasm.config.v0+json";

/// The media type of a component, and what older tools write.
const LAYERS: [&str; 2] = ["application/wasm", "application/vnd.wasm.content.layer.v1+wasm"];

/// A blob that a manifest names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Descriptor {
    pub(super) digest: String,
    pub(super) bytes: u64,
}

/// Reads a manifest, and returns its component.
///
/// # Errors
/// Says why the artifact is no component.
pub(super) fn component(text: &[u8]) -> Result<Descriptor, RegistryError> {
    let manifest: Value = serde_json::from_slice(text)
        .map_err(|error| RegistryError::new(format!("the registry's manifest is not JSON: {error}")))?;
    let media_type = manifest["mediaType"].as_str().unwrap_or(MANIFEST);
    if media_type == INDEX || manifest.get("manifests").is_some() {
        return Err(RegistryError::new("it is an index of several images, not a component")
            .with_hint("name the manifest of one by its digest: oci://…@sha256:…"));
    }
    let layers = manifest["layers"].as_array().map(Vec::as_slice).unwrap_or_default();
    let components: Vec<&Value> =
        layers.iter().filter(|layer| layer["mediaType"].as_str().is_some_and(|ty| LAYERS.contains(&ty))).collect();
    match components[..] {
        [layer] => descriptor(layer),
        [] => {
            let types: Vec<&str> = layers.iter().filter_map(|layer| layer["mediaType"].as_str()).take(4).collect();
            let found = if types.is_empty() { "it has no layers".to_owned() } else { types.join(", ") };
            Err(RegistryError::new(format!("the artifact has no layer of the type application/wasm: {found}"))
                .with_hint("it may be a container image; `wfhost push` makes the artifact of a component"))
        }
        _ => Err(RegistryError::new("the artifact has several components")),
    }
}

fn descriptor(layer: &Value) -> Result<Descriptor, RegistryError> {
    let digest = layer["digest"].as_str().filter(|digest| is_digest(digest));
    let (Some(digest), Some(bytes)) = (digest, layer["size"].as_u64()) else {
        return Err(RegistryError::new("the manifest names its layer without a SHA-256 digest and a size"));
    };
    Ok(Descriptor { digest: digest.to_owned(), bytes })
}

/// The configuration and the manifest of an artifact with this component.
pub(super) fn of(component: &[u8], title: &str) -> (Vec<u8>, Vec<u8>) {
    let digest = sha256(component);
    let config = json!({ "architecture": "wasm", "os": "wasip2", "layerDigests": [digest] }).to_string();
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": { "mediaType": CONFIG, "digest": sha256(config.as_bytes()), "size": config.len() },
        "layers": [{
            "mediaType": LAYERS[0],
            "digest": digest,
            "size": component.len(),
            "annotations": { "org.opencontainers.image.title": title },
        }],
    });
    (config.into_bytes(), manifest.to_string().into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manifest_of_a_component_names_it() {
        let (config, manifest) = of(b"\0asm", "a.wasm");
        assert_eq!(component(&manifest).unwrap(), Descriptor { digest: sha256(b"\0asm"), bytes: 4 });
        let manifest: Value = serde_json::from_slice(&manifest).unwrap();
        assert_eq!(manifest["config"]["digest"], sha256(&config));
    }

    #[test]
    fn what_is_no_component_is_named() {
        let digest = sha256(b"");
        let layer = |ty: &str| json!({ "mediaType": ty, "digest": digest, "size": 1 });
        for (manifest, expected) in [
            (json!("x"), "it has no layers"),
            (json!({ "manifests": [] }), "an index of several images"),
            (
                json!({ "layers": [layer("application/vnd.oci.image.layer.v1.tar+gzip")] }),
                "application/vnd.oci.image.layer.v1.tar+gzip",
            ),
            (json!({ "layers": [layer(LAYERS[0]), layer(LAYERS[1])] }), "several components"),
            (
                json!({ "layers": [{ "mediaType": LAYERS[0], "digest": "sha256:../../x", "size": 1 }] }),
                "without a SHA-256 digest",
            ),
            (
                json!({ "layers": [{ "mediaType": LAYERS[0], "digest": digest, "size": -1 }] }),
                "without a SHA-256 digest",
            ),
        ] {
            let error = component(manifest.to_string().as_bytes()).unwrap_err();
            assert!(error.message.contains(expected), "{}", error.message);
        }
        assert!(component(b"<html>").unwrap_err().message.contains("not JSON"));
    }
}
