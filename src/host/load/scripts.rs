//! Scripts among the components of a workflow, and programs with folders that they can read.

use super::*;

impl Loader<'_> {
    /// Loads a script file, or what was stored of it.
    pub(super) fn script_file(
        &self,
        source: &str,
        location: ComponentLocation,
        language: ScriptLanguage,
    ) -> Result<ResolvedComponent, Unusable> {
        let ComponentLocation { path, folder, bytes, name, is_other, .. } = location;
        let loaded = match bytes {
            Some(bytes) => self.stored(source, &bytes)?,
            None => {
                let refuse = |why: String| Unusable::from((format!("cannot read the script `{name}`: {why}"), None));
                let (folder, path) = script::place_in(&folder, &path, is_other).map_err(refuse)?;
                let text = folder.read(&path).map_err(refuse)?;
                let main = ScriptSource { path, line: 1, form: ScriptForm::Module, text };
                self.host.script(Origin { main, language, folder: Ok(folder) }, self.cancellation)?
            }
        };
        Ok(ResolvedComponent { name: is_other.then_some(name), ..self.add_script(source, loaded, None)? })
    }

    /// Loads a script in the workflow file, or what was stored of it.
    pub(super) fn inline_script(
        &self,
        source: &str,
        script: &InlineScript,
        file: &Source,
    ) -> Result<ResolvedComponent, Unusable> {
        let location = (self.find)(source);
        let loaded = match location.bytes {
            Some(bytes) if !location.is_other => self.stored(source, &bytes)?,
            _ => {
                let own = || Path::new(file.name()).file_name().unwrap_or_default().to_string_lossy().into_owned();
                let path = script::file_of(source).map_or_else(own, str::to_owned);
                let (line, text) = (script.line(file), script.scalar.text.clone());
                let main = ScriptSource { path, line, form: ScriptForm::Body, text };
                let folder = Folder::new(&location.folder);
                self.host.script(Origin { main, language: script.language, folder }, self.cancellation)?
            }
        };
        self.add_script(source, loaded, Some(script.clone()))
    }

    /// Loads a script as it was stored with a run.
    fn stored(&self, source: &str, bytes: &[u8]) -> Result<LoadedScript, Unusable> {
        let damaged = |why: String| Unusable::from((format!("the script that was stored as `{source}`: {why}"), None));
        let bundle = Bundle::read(bytes).map_err(damaged)?;
        let engine = (self.find)(&bundle.engine_file()).bytes;
        let engine = engine.ok_or_else(|| damaged("its engine is not stored".to_owned()))?;
        self.host.stored_script(bundle, engine, self.cancellation)
    }

    /// Adds a script to what was found.
    fn add_script(
        &self,
        source: &str,
        loaded: LoadedScript,
        inline: Option<InlineScript>,
    ) -> Result<ResolvedComponent, Unusable> {
        let LoadedScript { component, bundle, engine } = loaded;
        let digest = |text: &str| format!("blake3:{}", blake3::hash(text.as_bytes()).to_hex());
        let parts: Vec<Result<(), Unusable>> =
            bundle.modules().map(|(path, text)| self.part(LockedKind::Script, path, digest(text))).collect();
        parts.into_iter().collect::<Result<(), Unusable>>()?;
        let digest = component.digest().to_string();
        let described = component.describe();
        let undescribed = described.as_ref().err().cloned();
        let entries = described.ok().flatten().and_then(|description| entries(&description.to_value()));
        self.found.borrow_mut().insert(source.to_owned(), Arc::new(component));
        let file = |bytes: Bytes, undescribed| ComponentFile {
            hash: blake3::hash(&bytes).to_hex().as_str().into(),
            bytes: self.host.retains_components().then_some(bytes),
            undescribed,
        };
        let mut files = self.files.borrow_mut();
        files.insert(source.to_owned(), file(bundle.to_bytes().into(), undescribed));
        files.entry(bundle.engine_file()).or_insert_with(|| file(engine, None));
        let content = Some(bundle.content());
        self.scripts.borrow_mut().insert(source.to_owned(), (bundle, inline));
        Ok(ResolvedComponent { digest: Some(digest), entries, name: None, content, input: None })
    }
}

impl Loader<'_> {
    /// Loads a program with the folders that it can read, or what was stored of them.
    pub(super) fn program(&self, declared: &ComponentDecl) -> Result<ResolvedComponent, (Unusable, Span)> {
        let (source, key) = (&declared.source, declared.key());
        let refuse = |why: &str, span: Span| (Unusable::from((why.to_owned(), None)), span);
        let only = "only a program for the command line can be granted folders";
        let location = Some((self.find)(&key)).filter(|location| location.is_other);
        let location = location.unwrap_or_else(|| (self.find)(&source.value));
        if source.value.starts_with("native:") || ScriptLanguage::of(location.name_of(&source.value)).is_some() {
            return Err(refuse(only, declared.folders[0].0.span));
        }
        let (other, root) = (location.is_other.then(|| location.name.clone()), location.folder.clone());
        let ready = self.load(&source.value, location).map_err(|why| (why, source.span))?;
        let digest = ready.digest();
        self.part(LockedKind::Component, &source.value, digest).map_err(|why| (why, source.span))?;
        let Runnable::Command(command) = &ready.component else {
            return Err(refuse(only, declared.folders[0].0.span));
        };
        let folders = format!("{FOLDERS}{key}");
        let content = match (self.find)(&folders).bytes {
            Some(bytes) => Content::from_bytes(&bytes).map_err(|why| refuse(&why, source.span))?,
            None => {
                let mut content = Content::new();
                for (name, folder) in &declared.folders {
                    content.read(&root, &name.value, &folder.value).map_err(|why| refuse(&why, folder.span))?;
                }
                content
            }
        };
        let bytes = Bytes::from(content.to_bytes());
        if bytes.len() > COMPONENT_BYTES_MAX {
            let why = format!("its folders take {} bytes of at most {COMPONENT_BYTES_MAX} in a run", bytes.len());
            return Err(refuse(&why, declared.folders[0].1.span));
        }
        let granted = content.granted().map_err(|why| refuse(&why, source.span))?;
        let hash = blake3::hash(&bytes);
        let digest = format!("blake3:{}", hash.to_hex());
        self.part(LockedKind::Folders, &key, digest).map_err(|why| (why, declared.folders[0].1.span))?;
        let component = Runnable::Command(command.granted(granted, &hash));
        let resolved = self.add(&key, &source.value, Ready { component, ..ready });
        let file = ComponentFile {
            hash: hash.to_hex().as_str().into(),
            bytes: self.host.retains_components().then_some(bytes),
            undescribed: None,
        };
        self.files.borrow_mut().insert(folders, file);
        Ok(ResolvedComponent { name: other, ..resolved })
    }
}
